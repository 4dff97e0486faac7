"""Events of the history of configs: drift that somebody made on a copy, and a store that fails."""

from typing import ClassVar

from engine.core.events.event_base import Event
from policies.words import counted


class TopicDrifted(Event, frozen=True, kw_only=True, tag="topic_drifted"):
    """Somebody changed configs of one copy: `found`: the values, `expected`: what they should be, both by config.

    `left`: why configs are not set right, by config; raymirror has set the others right.
    """

    severity: ClassVar[str] = "warning"
    topic: str
    target: str
    found: dict[str, str]
    expected: dict[str, str]
    left: dict[str, str]

    @property
    def about(self) -> str:
        """Name the source topic."""
        return self.topic

    def text(self) -> str:
        said = "; ".join(self._said(key) for key in self.found)
        return f"{self.topic}: somebody changed configs of {self.target} on {self.flow.target}: {said}"

    def _said(self, key: str) -> str:
        end = f"left: {self.left[key]}" if key in self.left else "set right"
        return f"{key} is {self.found[key]} instead of {self.expected.get(key, '')} ({end})"


class ManyDrifted(Event, frozen=True, kw_only=True, tag="many_drifted"):
    """One round found drift on more copies than get their own events; `count`: how many more."""

    severity: ClassVar[str] = "warning"
    part: str
    count: int

    @property
    def about(self) -> str:
        """Name the part."""
        return self.part

    def text(self) -> str:
        return f"{self.part}: the same round found changed configs on {self.count} more topics; see: raymirror drift"


class ConfigHistoryUnwritten(Event, frozen=True, kw_only=True, tag="config_history_unwritten"):
    """Rows of the history of configs could not be stored; they wait in memory, and raymirror retries them."""

    severity: ClassVar[str] = "warning"
    where: str
    why: str

    @property
    def about(self) -> str:
        """Name the storage."""
        return self.where

    def text(self) -> str:
        return f"{self.where}: the history of configs is not stored: {self.why}; raymirror retries ever less often"


class ConfigHistoryLost(Event, frozen=True, kw_only=True, tag="config_history_lost"):
    """Rows of the history of configs were dropped: its storage was unreachable for longer than rows could wait."""

    severity: ClassVar[str] = "error"
    where: str
    count: int

    @property
    def about(self) -> str:
        """Name the storage."""
        return self.where

    def text(self) -> str:
        rows = counted(self.count, "row")
        return (
            f"{self.where}: {rows} of the history of configs dropped, because its storage was unreachable for too long;"
            " present values are stored again, and what changed and changed back meanwhile is not"
        )


class ConfigHistoryUntidy(Event, frozen=True, kw_only=True, tag="config_history_untidy"):
    """Past days of the history of configs could not be merged or removed; raymirror still stores new rows."""

    severity: ClassVar[str] = "warning"
    where: str
    why: str

    @property
    def about(self) -> str:
        """Name the storage."""
        return self.where

    def text(self) -> str:
        return f"{self.where}: {self.why}; existing rows stay readable; raymirror retries on another day"


DriftEvent = TopicDrifted | ManyDrifted | ConfigHistoryUnwritten | ConfigHistoryLost | ConfigHistoryUntidy
