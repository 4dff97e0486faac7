"""The start time and the size of a lane's lag."""

import pytest

from engine.core.reports.lag import LagWatch


@pytest.mark.parametrize(
    ("caught_up", "appended", "head", "newest", "since"),
    [
        (-1, -1, -1, -1, 1000),  # nothing known: behind for as long as it is here
        (-1, -1, 400, -1, 400),  # a backlog, before the first acknowledgement
        (-1, 5000, 400, 300, 400),  # a backlog being copied: the head's age
        (-1, 5000, -1, 300, 300),  # the queue was given back: the next record came after the last copied one
        (4000, 4000, 4500, 300, 4000),  # it fell behind after it had everything; nothing acknowledged since
        (4000, 6000, 5500, 5000, 5500),  # steady traffic
        (4000, 4000, -1, 300, 4000),  # the first record after a quiet day, not fetched yet
        (4000, 6000, 20, 10, 4000),  # records with old timestamps, written since
        (4000, 6000, 99_000, 98_000, 6000),  # records from the future
    ],
)
def test_behind_since(caught_up: int, appended: int, head: int, newest: int, since: int) -> None:
    watch = LagWatch(1000)
    watch.caught_up_ms, watch.appended_at_ms = caught_up, appended
    assert watch.behind_since_ms(head, newest) == since


def test_a_date_is_of_one_offset() -> None:
    watch = LagWatch(0)
    assert (watch.is_dated(7, 0), watch.date_of(7)) == (False, -1)
    watch.date(7, -1, 1000)
    assert (watch.is_dated(7, 900), watch.is_dated(7, 1100), watch.date_of(7)) == (True, False, -1)
    watch.date(7, 123, 1000)
    assert (watch.is_dated(7, 900), watch.is_dated(7, 1100), watch.date_of(7)) == (True, True, 123)
    assert (watch.is_dated(8, 900), watch.date_of(8)) == (False, -1)


def test_weight_is_unknown_until_something_was_copied_and_nothing_weighs_nothing() -> None:
    watch = LagWatch(0)
    assert (watch.bytes_of(0), watch.bytes_of(10)) == (0, -1)
    watch.weigh(0, 0)
    assert watch.bytes_of(10) == -1
    watch.weigh(1000, 10)
    assert watch.bytes_of(7) == 700


def test_weight_follows_what_is_copied_now_and_stays_while_nothing_is() -> None:
    watch = LagWatch(0)
    wire_bytes = offsets = 0
    for size in (100, 10):
        for _ in range(100):
            wire_bytes, offsets = wire_bytes + 50 * size, offsets + 50
            watch.weigh(wire_bytes, offsets)
        watch.weigh(wire_bytes, offsets)
        assert watch.bytes_of(1000) == pytest.approx(1000 * size, rel=0.01)
