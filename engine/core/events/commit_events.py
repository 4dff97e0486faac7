"""Events of lanes that copy in transactions: commits whose markers the target left out."""

from typing import ClassVar

from engine.core.events.event_base import LaneEvent


class CommitUnmarked(LaneEvent, frozen=True, kw_only=True, tag="commit_unmarked"):
    """The target decided a commit but did not write its marker at `target_offset`, the end of the records."""

    severity: ClassVar[str] = "warning"
    target_offset: int

    def text(self) -> str:
        return (
            f"{self.lane}: the target decided a commit but did not write its marker at target offset"
            f" {self.target_offset} (its coordinator omits markers while the partition has no leader: KAFKA-20734);"
            " readers of committed records wait there until raymirror's next commit, which follows at once"
        )


class CommitUndone(LaneEvent, frozen=True, kw_only=True, tag="commit_undone"):
    """Target offsets `first` to `last` (inclusive) were committed and then rolled back; the lane copies them again."""

    severity: ClassVar[str] = "warning"
    first: int
    last: int
    source_offset: int

    def text(self) -> str:
        return (
            f"{self.lane}: target offsets {self.first} to {self.last} were committed, but the target did not write the"
            " marker (KAFKA-20734), and a new owner's barrier rolled them back; no reader of committed records has seen"
            f" them; the lane copies them again from source offset {self.source_offset} on"
        )


CommitEvent = CommitUnmarked | CommitUndone
