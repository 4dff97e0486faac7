"""The base classes of all events: the flow, the subject of the event, and one sentence of text."""

from typing import ClassVar

import msgspec

from policies.model import FlowName, TopicPartition


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """Base of all events; `flow` is the flow that the event belongs to."""

    severity: ClassVar[str] = "info"
    flow: FlowName

    @property
    def about(self) -> str:
        """Name the subject of the event within the flow; empty for the flow itself."""
        return ""

    def text(self) -> str:
        """Say in one sentence what happened, where, and how to fix it."""
        raise NotImplementedError  # pragma: no cover - every subclass implements it


class LaneEvent(Event, frozen=True, kw_only=True):
    """An event of one lane, named by its source partition."""

    lane: TopicPartition

    @property
    def about(self) -> str:
        """Name the lane."""
        return str(self.lane)
