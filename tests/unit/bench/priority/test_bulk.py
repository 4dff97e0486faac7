"""The seconds of `priority` that count: while every partition of the bulk has something left."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bench.dataset import Backlog
from bench.latency.stamped import Plan
from bench.priority.bulk import Look, Window, window

BULK = Backlog.short("bulk", 2, 100)
PLAN = Plan(bootstrap="h:1", topic="t", partitions=4, per_s=10, warm_up_s=1.0, measured_s=4.0)


def test_a_window_ends_with_the_last_look_before_a_partition_is_whole() -> None:
    looks = [Look(1.0, (0, 0)), Look(2.0, (5, 5)), Look(3.0, (50, 30)), Look(4.0, (90, 60)), Look(5.0, (100, 70))]
    assert window(looks, BULK, 1.5, 9.0) == Window(2.0, 4.0, 140)
    assert window(looks, BULK, 1.5, 3.5) == Window(2.0, 3.0, 70)


def test_a_bulk_that_was_over_leaves_no_window() -> None:
    assert window([Look(2.0, (100, 7))], BULK, 1.0, 9.0).seconds == 0.0
    assert window([Look(2.0, (1, 1))], BULK, 1.0, 9.0) == Window(1.0, 1.0, 0)


def test_the_records_that_count_were_due_in_the_window() -> None:
    assert Window(11.0, 13.0, 0).numbers(PLAN, 10.0) == (10, 30)
    assert Window(8.0, 99.0, 0).numbers(PLAN, 10.0) == (0, 50)


@given(st.lists(st.integers(0, 120), min_size=2, max_size=30).map(sorted), st.floats(0, 20), st.floats(0, 20))
def test_nothing_counts_before_the_bulk_begins_or_after_it_ends(ends: list[int], from_s: float, to_s: float) -> None:
    looks = [Look(float(at), (end, 0)) for at, end in enumerate(ends)]
    found = window(looks, BULK, from_s, to_s)
    for look, later in pairwise(looks):
        if found.seconds and found.from_s <= look.at_s < later.at_s <= found.to_s:
            assert look.has_begun
            assert not later.is_over(BULK)
    assert not found.seconds or from_s <= found.from_s <= found.to_s <= to_s
    assert 0 <= found.bulk_records < 100
