"""What the answers of a lane's ranges teach about its path."""

from typing import cast

import pytest

from engine.flow.io.hot_lane import HotLane
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ports.ports import Leader
from engine.flow.ranges.batch_sizes import BatchSizes
from engine.flow.ranges.range_plan import Range, RangePlan

KIB, MIB = 1024, 1 << 20
WHOLE = 24 * 50 * KIB


class Read:
    """A lane whose ranges are answered one after the other over a path of 0.1 s and `rate` bytes per second."""

    def __init__(self, rate: float) -> None:
        sizes = BatchSizes(batch_bytes=50 * KIB, bytes_per_offset=KIB, alike=0, spread_bytes=0, joint=0)
        plan = RangePlan(Leader(1, 4, "id"), 0, 1 << 40, sizes, 8 * MIB)
        self.hot = HotLane(cast("LaneDriver", None), plan)
        self.rate = rate
        self.now_s = 0.0

    def answer(self, size: int, *, is_rest: bool = False) -> None:
        one = Range(start=0, stop=1, max_bytes=size, is_rest=is_rest)
        mark, began_s = self.hot.window.sent(size, self.now_s), self.now_s + 0.1
        self.now_s = began_s + size / self.rate
        self.hot.came(one, mark, self.now_s, size, began_s)


def test_the_time_of_a_small_range_is_that_of_a_whole_one() -> None:
    read = Read(1.5 * MIB)
    read.answer(512 * KIB)
    assert read.hot.trip_s == pytest.approx(0.1)
    assert read.hot.window.round_trip_s == pytest.approx(0.1 + WHOLE / (1.5 * MIB))
    assert read.hot.is_narrow


def test_a_rest_teaches_nothing_but_the_round_trip() -> None:
    read = Read(1.5 * MIB)
    read.answer(WHOLE)
    before = read.hot.window.holds
    read.answer(50 * KIB, is_rest=True)
    assert read.hot.window.holds == before
    assert read.hot.answers == 1


def test_an_answer_with_few_bytes_does_not_show_how_long_a_whole_one_takes() -> None:
    read = Read(1.5 * MIB)
    read.answer(WHOLE)
    before = read.hot.window.round_trip_s
    read.answer(20 * KIB)
    assert read.hot.window.round_trip_s == before
    assert read.hot.answers == 2


def test_a_path_without_windows_is_not_narrow() -> None:
    read = Read(100 * MIB)
    read.answer(WHOLE)
    assert not read.hot.is_narrow
