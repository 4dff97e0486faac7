"""Parts of the runs of a map."""

from hypothesis import given
from hypothesis import strategies as st

from engine.core.offset_map.map_runs import MapRun, cut_before_target, records_between
from tests.unit.engine.core.maps import records_of

RUNS = (MapRun(90, 40, 4), MapRun(95, 45, 5), MapRun(100, 60, 1))


@given(st.integers(30, 70), st.integers(0, 40))
def test_the_records_between_two_target_offsets_are_those_of_the_map(first: int, count: int) -> None:
    wanted = {source: target for source, target in records_of(RUNS).items() if first <= target < first + count}
    assert records_of(records_between(RUNS, first, first + count)) == wanted
    assert records_between((), first, first + count) == ()


@given(st.integers(30, 70))
def test_the_records_from_a_target_offset_on(target: int) -> None:
    wanted = {source: at for source, at in records_of(RUNS).items() if at >= target}
    assert records_of(cut_before_target(RUNS, target)) == wanted
