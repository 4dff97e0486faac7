"""Events of proof of copy."""

from typing import ClassVar

from engine.core.events.event_base import LaneEvent
from policies.words import counted


class CopyDiffers(LaneEvent, frozen=True, kw_only=True, tag="proof_failed"):
    """A lane's copy differs from its source somewhere in the source offsets [source_from, source_to)."""

    severity: ClassVar[str] = "error"
    differences: int
    first: str
    """The first difference, in words."""
    source_from: int
    source_to: int

    def text(self) -> str:
        return (
            f"{self.lane}: {counted(self.differences, 'difference')} between source offsets {self.source_from} and"
            f" {self.source_to} and their copies; the first: {self.first}; for all: raymirror verify CONFIG --again"
        )
