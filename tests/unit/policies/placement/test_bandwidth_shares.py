"""The division of a limit among copiers."""

from hypothesis import given
from hypothesis import strategies as st

from policies.placement.bandwidth_shares import BandwidthUse, shares_of

IDLE = BandwidthUse()
HELD = BandwidthUse(0.0, held=True)
USES = st.lists(st.builds(BandwidthUse, st.floats(0, 1e10), st.booleans()), min_size=1, max_size=50)


def test_copiers_that_have_not_reported_share_evenly() -> None:
    assert shares_of(900, [IDLE] * 3) == [300, 300, 300]
    assert shares_of(900, []) == []


def test_a_copier_that_is_held_back_gets_what_others_do_not_use() -> None:
    assert shares_of(1000, [HELD, BandwidthUse(80.0)]) == [900, 100]
    assert shares_of(1600, [HELD, IDLE]) == [1550, 50]


def test_copiers_that_are_held_back_share_evenly_even_if_one_uses_more() -> None:
    assert shares_of(1000, [BandwidthUse(900.0, held=True), BandwidthUse(10.0, held=True)]) == [500, 500]


def test_nobody_is_held_back_so_everyone_may_grow() -> None:
    assert shares_of(1000, [BandwidthUse(80.0), BandwidthUse(160.0)]) == [450, 550]


def test_a_byte_for_each_does_not_exceed_the_limit() -> None:
    assert shares_of(3, [BandwidthUse(), BandwidthUse(), BandwidthUse(bytes_per_s=2.0)]) == [1, 1, 1]


@given(st.integers(1, 10**12), USES)
def test_parts_are_positive_and_their_sum_is_the_limit_at_most(limit: int, uses: list[BandwidthUse]) -> None:
    found = shares_of(limit, uses)
    assert all(share >= 1 for share in found)
    assert sum(found) <= max(limit * (1 + 1e-9), len(uses))


@given(st.integers(10**6, 10**12), USES)
def test_little_is_left_over_and_everyone_gets_a_part(limit: int, uses: list[BandwidthUse]) -> None:
    found = shares_of(limit, uses)
    assert sum(found) >= limit * (1 - 1e-6) - len(uses)
    assert min(found) >= limit / len(uses) / 16 - 1


@given(st.integers(10**6, 10**12), USES)
def test_a_held_copier_gets_no_less_than_any_other(limit: int, uses: list[BandwidthUse]) -> None:
    found = shares_of(limit, uses)
    held = [share for share, use in zip(found, uses, strict=True) if use.held]
    assert not held or min(held) >= max(found) - 1
