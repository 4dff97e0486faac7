"""Records that a source log lacks for a copy that continues in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.position.missing import missing_records


@pytest.mark.parametrize(
    ("source_next", "found"),
    [(9, (9, 9)), (4, (4, 9)), (10, None), (15, None), (20, None), (21, (20, 20)), (30, (20, 29))],
)
def test_a_log_from_10_to_20_lacks_what_is_outside(source_next: int, found: tuple[int, int] | None) -> None:
    missing = missing_records(source_next, 10, 20)
    assert (None if missing is None else (missing.first, missing.last)) == found


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_what_is_missing_is_never_in_the_log(source_next: int, start: int, length: int) -> None:
    missing = missing_records(source_next, start, start + length)
    if missing is None:
        assert start <= source_next <= start + length
    else:
        assert missing.first <= missing.last
        assert not range(max(start, missing.first), min(start + length, missing.last + 1))


def test_the_cause_says_which_side_is_gone() -> None:
    early, late = missing_records(3, 10, 20), missing_records(25, 10, 20)
    assert early is not None
    assert "retention" in early.cause
    assert late is not None
    assert "truncated" in late.cause
