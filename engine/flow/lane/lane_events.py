"""Protocol of what a lane's parts report as records go through: the copier acts on it."""

from collections.abc import Sequence
from typing import Protocol

from engine.base.errors import WireError
from engine.flow.lane.lane_driver import AppendEvents, LaneDriver
from engine.flow.ports.ports import Slice


class FetchEvents(Protocol):
    """What an inbox reports of its lanes."""

    def taken(self, drivers: Sequence[LaneDriver]) -> None:
        """Lanes have new batches."""

    def fault(self, driver: LaneDriver, found: Slice) -> None:
        """A fetch failed for one partition, or names another replica."""

    def corrupt(self, driver: LaneDriver, error: WireError) -> None:
        """A source batch breaks the record format, or is larger inside than it may be."""

    def idle(self, driver: LaneDriver, found: Slice) -> None:
        """A fetch was empty."""

    def awake(self, driver: LaneDriver) -> None:
        """A lane that only watched has something to copy."""


class LeaderEvents(Protocol):
    """What look-ups of leaders report."""

    def changed_topic(self, driver: LaneDriver, side: str, topic: str, expected: str, found: str) -> None:
        """The id of a topic is not the one that the lane began with: it was deleted and created again."""

    def cut_off(self, driver: LaneDriver, end: int) -> None:
        """The target's new leader ends below what was acknowledged."""


class LaneEvents(AppendEvents, FetchEvents, LeaderEvents, Protocol):
    """All that the lanes of one copier report."""
