"""Where late copies lie on the target, from the runs of a map."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from engine.core.offset_map.offset_map import Columns
from engine.flow.failback.late_copies import echoes_of, size_of


def columns(*runs: tuple[int, int, int]) -> Columns:
    return tuple(array("q", column) for column in zip(*runs, strict=True)) if runs else (array("q"),) * 3  # type: ignore[return-value]


def test_runs_are_cut_at_both_ends_and_neighbours_are_joined() -> None:
    runs = columns((0, 10, 5), (5, 20, 3), (8, 23, 2), (20, 40, 9))
    assert echoes_of(runs, 4, 22) == ((14, 15), (20, 25), (40, 42))
    assert size_of(echoes_of(runs, 4, 22)) == 8
    assert echoes_of(runs, 10, 20) == ()
    assert echoes_of(columns(), 0, 9) == ()


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2), st.integers(0, 2)), max_size=8), st.data())
def test_exactly_the_copies_of_the_offsets_are_found(parts: list[tuple[int, int, int]], data: st.DataObject) -> None:
    source, target, runs, places = 0, 100, list[tuple[int, int, int]](), dict[int, int]()
    for count, here, there in parts:
        source, target = source + here, target + there
        runs.append((source, target, count))
        places |= {source + at: target + at for at in range(count)}
        source, target = source + count, target + count
    first = data.draw(st.integers(0, source))
    end = data.draw(st.integers(first, source))
    found = echoes_of(columns(*runs), first, end)
    assert {at for begin, until in found for at in range(begin, until)} == {
        place for offset, place in places.items() if first <= offset < end
    }
    assert list(found) == sorted(found)
