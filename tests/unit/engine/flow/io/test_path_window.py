"""The window of a path: twice what the path holds, whatever the path is."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.flow.io.path_window import PathWindow, SentMark
from policies.rebatch import is_slow

MIB = 1 << 20
LEAST = 5


class Path:
    """A path that takes `trip_s` both ways, and `rate` bytes per second in between, one request after the other."""

    def __init__(self, trip_s: float, rate: float, size: int, most: int = 64 * MIB) -> None:
        self.window = PathWindow(LEAST)
        self.trip_s, self.rate, self.size, self.most = trip_s, rate, size, most
        self.now_s = self.free_s = 0.0
        self.on_way: deque[tuple[float, SentMark]] = deque()
        self.answered_bytes = 0
        self.widest = 0

    def run(self, until_s: float, *, every_s: float = 0.0) -> None:
        """Send whenever there is room; `every_s`: at most so often."""
        next_s = self.now_s
        while self.now_s < until_s:
            while self.window.has_room(self.most) and next_s <= self.now_s:
                self.free_s = max(self.free_s, self.now_s) + self.size / self.rate
                self.on_way.append((self.free_s + self.trip_s, self.window.sent(self.size, self.now_s)))
                next_s = max(next_s, self.now_s) + every_s if every_s else next_s
            self.widest = max(self.widest, self.window.in_flight_bytes)
            if every_s and self.window.has_room(self.most) and (not self.on_way or next_s < self.on_way[0][0]):
                self.now_s = next_s
                continue
            self.now_s, mark = self.on_way.popleft()
            self.window.answered(mark, self.now_s)
            self.answered_bytes += mark.size


@pytest.mark.parametrize("trip_s", [0.02, 0.1, 0.3])
def test_a_distant_path_is_filled(trip_s: float) -> None:
    path = Path(trip_s, 50 * MIB, 64 * 1024)
    path.run(20 * trip_s)
    before, since_s = path.answered_bytes, path.now_s
    path.run(since_s + 8.0)
    assert (path.answered_bytes - before) / (path.now_s - since_s) > 0.9 * 50 * MIB
    assert path.widest <= 2.5 * 50 * MIB * (trip_s + 0.01), "twice what the path holds is enough"


@pytest.mark.parametrize(("request_s", "is_slow_there"), [(0.002, True), (0.0003, False)])
def test_a_target_that_takes_long_for_each_request_is_slow(request_s: float, is_slow_there: bool) -> None:
    """As a leader that waits for its replicas, whatever the size of a request."""
    size = 60 * 1024
    path = Path(0.1, size / request_s, size)
    assert not path.window.queues
    path.run(5.0)
    assert path.window.queues
    assert is_slow(path.window.request_bytes, path.window.rate) is is_slow_there


def test_next_door_a_few_requests_are_enough() -> None:
    path = Path(0.0005, 300 * MIB, 200 * 1024)
    path.run(5.0)
    assert path.widest == LEAST * 200 * 1024


def test_memory_is_the_limit_where_it_is_less_than_the_path_holds() -> None:
    path = Path(0.2, 500 * MIB, 64 * 1024, most=4 * MIB)
    path.run(10.0)
    assert path.widest <= 4 * MIB + 64 * 1024


def test_a_path_that_becomes_longer_is_filled_again() -> None:
    path = Path(0.02, 50 * MIB, 64 * 1024)
    path.run(5.0)
    path.trip_s = 0.2
    path.run(40.0)
    before, since_s = path.answered_bytes, path.now_s
    path.run(since_s + 9.0)
    assert (path.answered_bytes - before) / (path.now_s - since_s) > 0.8 * 50 * MIB


def test_the_shortest_trip_is_measured_again_and_costs_little() -> None:
    path = Path(0.1, 50 * MIB, 64 * 1024)
    path.run(60.0)
    assert path.answered_bytes / 60.0 > 0.9 * 50 * MIB
    assert path.window.round_trip_s < 0.12, "a queue of our own does not count as distance"


def test_the_time_to_open_a_connection_is_no_distance() -> None:
    window = PathWindow(LEAST)
    mark = window.delayed(window.sent(1000, 0.0), 0.9)
    window.answered(mark, 1.0)
    assert window.round_trip_s == pytest.approx(0.1)
    assert window.holds == pytest.approx(1000)


def test_an_answer_of_another_kind_counts_but_teaches_nothing() -> None:
    window = PathWindow(LEAST)
    window.seed(1000, 0.1, 0.5, 0.0)
    assert (window.rate, window.round_trip_s, window.goal_bytes) == (10_000, 0.5, 10_000)
    window.came(window.sent(50, 1.0), 1.01, 50, None)
    assert (window.requests, window.round_trip_s, window.rate) == (0, 0.5, 10_000)
    window.came(window.sent(1000, 1.0), 1.1, 1000, 0.2)
    assert window.round_trip_s == 0.2


def test_requests_of_another_size_take_another_time() -> None:
    window = PathWindow(LEAST)
    window.retime(3.0)
    assert window.round_trip_s == 0.0
    window.answered(window.sent(1000, 0.0), 0.1)
    window.retime(0.3)
    assert window.holds == pytest.approx(3000)


def test_more_requests_at_the_start_than_later() -> None:
    window = PathWindow(3)
    for _ in range(2):
        window.sent(1000, 0.0)
    assert window.has_room(0)
    window.settle(2)
    assert not window.has_room(0)


@given(
    trip_s=st.floats(0.0005, 0.5), rate=st.floats(1e5, 1e9), size=st.integers(100, MIB), every_s=st.floats(0.001, 0.1)
)
def test_a_path_with_little_to_carry_is_never_stopped(trip_s: float, rate: float, size: int, every_s: float) -> None:
    path = Path(trip_s, rate, size)
    path.run(100 * every_s, every_s=every_s)
    while path.on_way:
        path.now_s, mark = path.on_way.popleft()
        path.window.answered(mark, path.now_s)
    assert (path.window.requests, path.window.in_flight_bytes) == (0, 0)
    assert path.window.has_room(MIB)
