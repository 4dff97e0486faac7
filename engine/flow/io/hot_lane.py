"""One lane that is read in ranges: its plan, and what its path carries."""

from engine.core.lane.states import State
from engine.flow.io.path_window import PathWindow, SentMark
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ranges.range_plan import Range, RangePlan

_FIRST_REQUESTS = 16
"""Small ranges at the start. Each answer lets two or three more ranges follow, so that with sockets that carry 1.5 MB/s
each, 64 connections are in use after two rounds; a slow path needs seconds for so many, once."""
LEAST_REQUESTS = 4
"""Ranges that may always be on their way after that."""
_LEARNED = 8
"""An answer of less than this part (1/8) of a whole range does not show how long a whole one takes."""


class HotLane:
    """One lane that is read in ranges."""

    def __init__(self, driver: LaneDriver, plan: RangePlan) -> None:
        self.driver = driver
        self.plan = plan
        self.window = PathWindow(_FIRST_REQUESTS)
        self.is_over = False
        self.asked = 0
        """The turn in which it was asked for last: the lane with the lowest one is next."""
        self.answers = 0
        """Ranges that were answered."""
        self.trip_s = 0.0
        """The shortest time in seconds until an answer began; 0 before the first one."""
        self._whole_bytes = plan.whole_bytes
        """The size of a range that the window's round trip is of."""

    @property
    def is_new(self) -> bool:
        """Whether the ranges that were asked for at the start are still on their way."""
        return self.answers < _FIRST_REQUESTS

    @property
    def is_narrow(self) -> bool:
        """Whether a whole range takes longer over its connection than its first bytes do: the sockets are small."""
        return self.window.round_trip_s > 2 * self.trip_s > 0

    def came(self, one: Range, mark: SentMark, now_s: float, size: int, began_s: float) -> None:
        """Learn from an answer of `size` bytes, the first of which came at `began_s`.

        Over a connection with a window an answer takes the longer the larger it is, so all are compared as if they were
        whole ranges. A rest is one batch, which comes at once: it says nothing about a whole range.
        """
        first_s, taken_s = began_s - mark.sent_s, now_s - mark.sent_s
        self.trip_s = min(self.trip_s or first_s, first_s)
        if one.is_rest:
            return self.window.came(mark, now_s, size, None)
        self.window.settle(LEAST_REQUESTS)
        self.answers += 1
        before, self._whole_bytes = self._whole_bytes, self.plan.whole_bytes
        longer_s = (self.window.round_trip_s - self.trip_s) * self._whole_bytes / before
        self.window.retime(self.trip_s + max(longer_s, 0.0))
        is_large = size * _LEARNED >= self._whole_bytes
        trip_s = first_s + (taken_s - first_s) * max(1.0, self._whole_bytes / size) if is_large else None
        return self.window.came(mark, now_s, size, trip_s)

    @property
    def is_as_planned(self) -> bool:
        """Whether the lane continues where the plan left it, at the same leader."""
        lane, leaders = self.driver.lane, self.driver.leaders
        return (
            not self.is_over
            and lane.state is State.COPYING
            and lane.listens
            and lane.fetch_offset == self.plan.delivered
            and leaders.replica is None
            and leaders.source == self.plan.leader
        )
