"""What all events have in common: the flow, what it happened to, and a sentence."""

from typing import ClassVar

import msgspec

from policies.model import FlowName, TopicPartition


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """Base of all events: the flow it belongs to."""

    severity: ClassVar[str] = "info"
    flow: FlowName

    @property
    def about(self) -> str:
        """Name what it happened to, within the flow; empty for the flow itself."""
        return ""

    def text(self) -> str:
        """Say in one sentence what happened, where, and what would be right."""
        raise NotImplementedError  # pragma: no cover - every subclass says its own


class LaneEvent(Event, frozen=True, kw_only=True):
    """An event of one lane, named by its source partition."""

    lane: TopicPartition

    @property
    def about(self) -> str:
        """Name the lane."""
        return str(self.lane)
