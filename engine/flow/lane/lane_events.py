"""Protocols of what a lane's parts report while records are copied; the copier acts on these reports."""

from collections.abc import Sequence
from typing import Protocol

from engine.base.errors import WireError
from engine.flow.lane.lane_driver import AppendEvents, LaneDriver
from engine.flow.ports.ports import Slice


class FetchEvents(Protocol):
    """Reports of an inbox about its lanes."""

    def taken(self, drivers: Sequence[LaneDriver]) -> None:
        """Lanes have new batches."""

    def fault(self, driver: LaneDriver, found: Slice) -> None:
        """A fetch failed for one partition, or names another replica."""

    def corrupt(self, driver: LaneDriver, error: WireError) -> None:
        """A source batch violates the record format, or decompresses to more than the limit."""

    def idle(self, driver: LaneDriver, found: Slice) -> None:
        """A fetch was empty."""

    def awake(self, driver: LaneDriver) -> None:
        """A lane that only watched has something to copy."""


class LeaderEvents(Protocol):
    """Reports of leader look-ups."""

    def changed_topic(self, driver: LaneDriver, side: str, topic: str, expected: str, found: str) -> None:
        """A topic's id has changed since the lane's start: the topic was deleted and created again."""

    def cut_off(self, driver: LaneDriver, why: str) -> None:
        """The target's new leader lacks acknowledged records."""


class LaneEvents(AppendEvents, FetchEvents, LeaderEvents, Protocol):
    """All reports of the lanes of one copier."""
