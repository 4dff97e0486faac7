"""Durations in buckets."""

import pytest

from engine.core.reports.latency import BOUNDS_MS, Histogram, LatencyHistogram


def test_bounds_rise() -> None:
    assert list(BOUNDS_MS) == sorted(set(BOUNDS_MS))


@pytest.mark.parametrize(
    ("duration_ms", "bucket"),
    [(-5.0, 0), (0.0, 0), (0.5, 0), (0.51, 1), (5.0, 3), (86_400_000.0, 20), (86_400_000.1, 21)],
)
def test_a_duration_lands_in_the_first_bucket_whose_bound_holds_it(duration_ms: float, bucket: int) -> None:
    tally = LatencyHistogram()
    tally.add(duration_ms, 3)
    assert [(at, count) for at, count in enumerate(tally.snapshot().counts) if count] == [(bucket, 3)]


def test_weights_count_in_sum_and_count_and_time_below_zero_counts_as_none() -> None:
    tally = LatencyHistogram()
    tally.add(2.0, 10)
    tally.add(-7.0)
    assert (tally.snapshot().count, tally.snapshot().sum_ms) == (11, 20.0)


def test_a_snapshot_stays_as_it_was_and_two_add_up() -> None:
    tally = LatencyHistogram()
    tally.add(1.0)
    before = tally.snapshot()
    tally.add(7.0)
    assert before.count == 1
    both = before.plus(tally.snapshot())
    assert (both.count, both.sum_ms) == (3, 9.0)
    assert Histogram().plus(before) == before
    assert both.minus(before) == tally.snapshot()
