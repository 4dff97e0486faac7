"""TokenBucket: rate, burst, debt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.flow.turns.token_bucket import TokenBucket

RATE = 1_000_000


def test_a_debt_is_waited_for() -> None:
    bucket = TokenBucket(RATE, 0.0)
    assert bucket.wait_s(0.0) == 0.0
    bucket.take(2 * RATE, 0.0)
    assert bucket.room(1.0) == 0
    assert bucket.wait_s(1.0) == pytest.approx(1.0)
    assert bucket.wait_s(2.0) == 0.0
    assert bucket.room(2.0) == pytest.approx(RATE / 20)


def test_a_rest_lets_at_most_one_second_through_at_once() -> None:
    bucket = TokenBucket(RATE, 0.0)
    assert bucket.room(3600.0) == RATE


def test_what_did_not_arrive_is_given_back() -> None:
    bucket = TokenBucket(RATE, 0.0)
    before = bucket.room(0.5)
    bucket.take(RATE, 0.5)
    bucket.take(-RATE, 0.5)
    assert bucket.room(0.5) == before


def test_another_rate_holds_at_once_and_a_debt_stays() -> None:
    bucket = TokenBucket(RATE, 0.0)
    bucket.take(RATE, 0.0)
    bucket.limit(10 * RATE, 0.0)
    assert 0 < bucket.wait_s(0.0) < 0.2
    full = TokenBucket(RATE, 0.0)
    full.limit(RATE // 10, 100.0)
    assert full.room(100.0) == RATE // 10


def test_a_clock_that_goes_back_changes_nothing() -> None:
    bucket = TokenBucket(RATE, 10.0)
    bucket.take(RATE, 10.0)
    assert bucket.wait_s(5.0) == bucket.wait_s(10.0)


@given(
    st.integers(1, 10**9),
    st.lists(st.tuples(st.floats(0.0, 2.0), st.integers(0, 4 * 1024 * 1024)), max_size=60),
)
def test_no_more_than_the_rate_a_burst_and_one_fetch_get_through(rate: int, steps: list[tuple[float, int]]) -> None:
    bucket, at_s, taken, last = TokenBucket(rate, 0.0), 0.0, 0, 0
    for passed_s, size in steps:
        at_s += passed_s
        if bucket.wait_s(at_s) == 0.0:
            bucket.take(size, at_s)
            taken, last = taken + size, max(last, size)
    assert taken <= rate * (at_s + 1.0) * (1 + 1e-6) + last + 1


@given(st.integers(1, 10**9), st.integers(0, 10**9))
def test_whoever_waits_as_long_as_told_may_fetch(rate: int, debt: int) -> None:
    bucket = TokenBucket(rate, 0.0)
    bucket.take(debt, 0.0)
    assert bucket.wait_s(bucket.wait_s(0.0) + 1e-3) == 0.0
