"""What is said of a flow when it begins."""

from typing import ClassVar

from engine.core.event_base import Event


class Mm2Active(Event, frozen=True, kw_only=True, tag="mm2_active"):
    """MM2's group on the target has members while we begin with the flow."""

    severity: ClassVar[str] = "warning"
    group: str

    @property
    def about(self) -> str:
        """Name the group."""
        return self.group

    def text(self) -> str:
        return (
            f"{self.group}: MM2's group has members on {self.flow.target}: if it copies this flow too, records arrive"
            " twice; stop MM2, or this flow"
        )


class StartDoubt(Event, frozen=True, kw_only=True, tag="start_doubt"):
    """Something to know of a flow that was checked late, because a cluster of its was away when the mirror started."""

    severity: ClassVar[str] = "warning"
    what: str

    @property
    def about(self) -> str:
        """Tell one doubt from another."""
        return self.what

    def text(self) -> str:
        return self.what
