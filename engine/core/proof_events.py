"""What proof of copy says aloud."""

from typing import ClassVar

from engine.core.event_base import LaneEvent
from policies.words import counted


class CopyDiffers(LaneEvent, frozen=True, kw_only=True, tag="proof_failed"):
    """What was read of a lane's copy, source offsets [source_from, source_to), is not what its source has."""

    severity: ClassVar[str] = "error"
    differences: int
    first: str
    """The first of them, in words."""
    source_from: int
    source_to: int

    def text(self) -> str:
        return (
            f"{self.lane}: {counted(self.differences, 'difference')} between source offsets {self.source_from} and"
            f" {self.source_to} and their copies, the first: {self.first}; all of them: raymirror verify CONFIG --again"
        )
