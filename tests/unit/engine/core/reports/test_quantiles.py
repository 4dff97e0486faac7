"""Quantiles of counts in buckets: the error is at most the width of the bucket."""

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.reports.latency import BOUNDS_MS, LatencyHistogram
from engine.core.reports.quantiles import quantile


@given(
    st.lists(st.floats(min_value=0, max_value=BOUNDS_MS[-1]), min_size=1, max_size=200),
    st.sampled_from([0.5, 0.9, 0.95, 0.99, 1.0]),
)
def test_a_quantile_lies_in_the_bucket_of_the_true_one(durations: list[float], q: float) -> None:
    tally = LatencyHistogram()
    for duration in durations:
        tally.add(duration)
    found = quantile(tally.snapshot().counts, q)
    ranked = sorted(durations)
    wanted = q * len(ranked)
    true = next(one for at, one in enumerate(ranked, start=1) if at >= wanted)
    bucket = bisect_left(BOUNDS_MS, true)
    assert found is not None
    assert (0.0, *BOUNDS_MS)[bucket] <= found <= BOUNDS_MS[bucket] * 1.000001


def test_there_is_none_of_nothing() -> None:
    assert quantile([], 0.5) is None
    assert quantile([0] * (len(BOUNDS_MS) + 1), 0.5) is None


def test_what_is_above_all_bounds_counts_as_being_at_the_last() -> None:
    assert quantile([0] * len(BOUNDS_MS) + [3], 0.5) == BOUNDS_MS[-1]


@pytest.mark.parametrize(("q", "expected"), [(0.25, 0.5), (0.5, 1.0), (0.75, 1.5), (1.0, 2.0)])
def test_it_is_spread_evenly_within_a_bucket(q: float, expected: float) -> None:
    assert quantile([1, 1, 2], q) == pytest.approx(expected)
