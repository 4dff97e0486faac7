"""Rows of the history of configs, as its three tables keep them. Times are Unix ms. Pure data."""

from collections.abc import Sequence

import msgspec

SOURCE, COPY, BOTH = "source", "copy", ""
"""Sides; `BOTH` is that of a mark."""
RAYMIRROR = "raymirror"
TOPIC, NONE, EXISTS, GONE, MARK = "topic", "none", "exists", "gone", "mark"
"""Origins of values beside those of defaults: set for the topic; no longer set; the topic itself, without a config."""
COPIED, SET_RIGHT = "copied", "set_right"
EQUAL, AGAIN, TOPIC_GONE = "equal_again", "changed_again", "topic_gone"
LEFT, CONFLICT, FAILED, WAITS = "left", "conflict", "failed", "waits"
STANDING_CHANGES = (CONFLICT, FAILED, WAITS)
"""Outcomes of a change of the source that may still reach the copy; what is `left` does not, by a rule."""
STANDING_DRIFT = (LEFT, *STANDING_CHANGES)
"""Outcomes of a drift that is still there."""


class HistoryRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One row: of which flow, which topic by its name on the source, its copy, and which config of it."""

    flow: str
    topic: str = ""
    target: str = ""
    key: str = ""

    def get(self, column: str) -> object:
        """Return the value of a column; None if this row has no such column."""
        return getattr(self, column, None)


class ConfigValueRow(HistoryRow, frozen=True, kw_only=True, gc=False):
    """A value of a config from `at_ms` on: on which side, which value before, where it comes from, who set it.

    `after_ms`: when the value before was seen last; None: none was. Without a topic: a default of the cluster; without
    topic and key: a mark, which says until when nothing else has changed. `snapshot`: not a change, but what was found
    when the history began, or once more.
    """

    at_ms: int
    after_ms: int | None = None
    side: str
    before: str | None = None
    value: str | None = None
    origin: str
    set_by: str = ""
    snapshot: bool = False


class SourceChangeRow(HistoryRow, frozen=True, kw_only=True, gc=False):
    """A config that changed on the source between `after_ms` and `seen_ms`, and what became of it on the copy.

    `applied_ms`: when it reached the copy; None: it did not. A later row of the same change has a later `updated_ms`.
    """

    seen_ms: int
    after_ms: int
    updated_ms: int
    old: str | None
    new: str | None
    outcome: str
    applied_ms: int | None = None
    latency_ms: int | None = None
    set_by: str = ""
    why: str = ""


class DriftRow(HistoryRow, frozen=True, kw_only=True, gc=False):
    """A config of a copy that somebody changed between `after_ms` and `seen_ms`, and what became of that.

    `expected`: what it should be; None: not set. `settled_ms`: when it was set right or ended; None: it stands.
    """

    seen_ms: int
    after_ms: int
    updated_ms: int
    expected: str | None
    before: str | None
    found: str | None
    outcome: str
    settled_ms: int | None = None
    set_by: str = ""
    why: str = ""


class HistoryRows(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that are stored together."""

    values: Sequence[ConfigValueRow] = ()
    changes: Sequence[SourceChangeRow] = ()
    drift: Sequence[DriftRow] = ()

    def __len__(self) -> int:
        return len(self.values) + len(self.changes) + len(self.drift)
