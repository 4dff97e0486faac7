"""Each difference gets its right name: every fault alone, and some together, in copies in place and moved."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.jobs.proof.align import Aligned, AlignedPair, Content, FoundDifference, align, gone
from engine.jobs.proof.model import DifferenceKind
from engine.jobs.proof.plan import MapColumns

COUNT, BY = 20, 100  # records of the source from 0 on, and how much higher they lie on the target


def content(name: int, **other: int) -> Content:
    made = Content(name, -name, name, name + 1, 0, 1000 + name, 0)._replace(**other)
    return made._replace(h1=hash(made[2:])) if other else made


SOURCE = [content(n) for n in range(COUNT)]


def pairs(target: Sequence[Content | None]) -> list[AlignedPair]:
    """Hold a copy against the source as the join by place does, for a map that says: n -> BY + n."""
    found = []
    for n in range(max(COUNT, len(target))):
        ours = SOURCE[n] if n < COUNT else None
        theirs = target[n] if n < len(target) else None
        source, place = n if ours else -1, BY + n if theirs else -1
        found.append(AlignedPair(source, place, n if n < COUNT else -1, ours, theirs))
    return found


def named(target: Sequence[Content | None]) -> Aligned:
    return align(pairs(target), lambda offset: BY + min(offset, COUNT))


def test_a_good_copy_has_no_difference() -> None:
    assert named([*SOURCE]) == Aligned([], 0)


@pytest.mark.parametrize("at", [0, 7, COUNT - 1])
def test_a_deleted_record_in_place_and_with_all_behind_it_moved_up(at: int) -> None:
    missing = [FoundDifference(DifferenceKind.MISSING, at, BY + at)]
    assert named([*SOURCE[:at], None, *SOURCE[at + 1 :]]).found == missing
    assert named([*SOURCE[:at], *SOURCE[at + 1 :]]).found == missing


@pytest.mark.parametrize("at", [0, 7, COUNT - 1])
def test_a_duplicate(at: int) -> None:
    (extra,) = named([*SOURCE[: at + 1], SOURCE[at], *SOURCE[at + 1 :]]).found
    assert extra.kind is DifferenceKind.EXTRA
    assert extra.target == BY + at + 1


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("key", "key"),
        ("value", "value"),
        ("headers", "headers"),
        ("timestamp", "timestamp"),
        ("kind", "timestamp type"),
    ],
)
def test_an_altered_record_names_what(field: str, name: str) -> None:
    copy: list[Content | None] = [*SOURCE]
    copy[5] = content(5, **{field: 77})
    assert named(copy).found == [FoundDifference(DifferenceKind.ALTERED, 5, BY + 5, name)]


def test_swapped_neighbours_are_one_difference() -> None:
    copy: list[Content | None] = [*SOURCE]
    copy[5], copy[6] = copy[6], copy[5]
    (moved,) = named(copy).found
    assert moved.kind is DifferenceKind.REORDERED
    assert moved.source in (5, 6)


@pytest.mark.parametrize("moved", [1, 2])
def test_swapped_neighbours_where_all_moved(moved: int) -> None:
    """One of them then lies where the map says."""
    copy: list[Content | None] = [*SOURCE]
    copy[8], copy[9] = copy[9], copy[8]
    found = named(copy[moved:]).found
    assert [(one.kind, one.source) for one in found[:moved]] == [(DifferenceKind.MISSING, n) for n in range(moved)]
    (one,) = found[moved:]
    assert one.kind is DifferenceKind.REORDERED
    assert one.source in (8, 9)


def test_a_lost_record_before_two_that_are_alike() -> None:
    twins = [*SOURCE[:6], SOURCE[5], *SOURCE[7:]]
    copy = [*twins[:2], *twins[3:]]
    places = [
        AlignedPair(n, BY + n if n < len(copy) else -1, n, twins[n], copy[n] if n < len(copy) else None)
        for n in range(COUNT)
    ]
    assert align(places, lambda offset: BY + offset).found == [FoundDifference(DifferenceKind.MISSING, 2, BY + 2)]


def test_a_time_that_the_target_stamped_is_counted_apart() -> None:
    copy: list[Content | None] = [*SOURCE]
    copy[3] = content(3, timestamp=5, kind=1)
    copy[4] = content(4, timestamp=5, kind=1, value=9)
    found = named(copy)
    assert found.stamped == 1
    assert found.found == [FoundDifference(DifferenceKind.ALTERED, 4, BY + 4, "value, timestamp, timestamp type")]


def test_altered_where_all_moved() -> None:
    copy: list[Content | None] = [*SOURCE[:4], *SOURCE[5:]]
    copy[9] = content(10, value=99)
    assert named(copy).found == [
        FoundDifference(DifferenceKind.MISSING, 4, BY + 4),
        FoundDifference(DifferenceKind.ALTERED, 10, BY + 9, "value"),
    ]


@given(st.sets(st.integers(0, COUNT - 1), max_size=5), st.data())
def test_many_lost_ones_are_all_named_and_nothing_else(lost: set[int], data: st.DataObject) -> None:
    holes = data.draw(st.booleans())
    kept: list[Content | None] = [None if n in lost else one for n, one in enumerate(SOURCE)]
    found = named(kept if holes else [one for one in kept if one is not None]).found
    assert {(one.kind, one.source) for one in found} == {(DifferenceKind.MISSING, n) for n in lost}


RUNS = MapColumns([0, 5, 20], [100, 105, 130], [5, 5, 4])
"""Two runs that meet on both sides, and one behind a hole."""


@pytest.mark.parametrize(
    ("seen", "found"),
    [
        (range(24), []),
        ([], [(0, 100, 5), (5, 105, 5), (20, 130, 4)]),
        ([-1, *range(3), 4, *range(6, 10), *range(10, 22), 23], [(3, 103, 1), (5, 105, 1), (22, 132, 1)]),
    ],
)
def test_what_neither_side_has_is_named_in_rows_of_one_run(seen: list[int], found: list[tuple[int, int, int]]) -> None:
    named = gone(RUNS, seen)
    assert [(one.source, one.target, one.records) for one in named] == found
    assert {one.kind for one in named} <= {DifferenceKind.GONE}


def test_a_map_without_runs_misses_nothing() -> None:
    assert gone(MapColumns([], [], []), [1, 2]) == []


@pytest.mark.parametrize(
    ("starts", "left"), [((0, 0), 5), ((7, 0), 3), ((0, 108), 2), ((8, 107), 2), ((10, 0), 0), ((0, 999), 0)]
)
def test_retention_takes_its_part_of_what_is_gone(starts: tuple[int, int], left: int) -> None:
    rest = FoundDifference(DifferenceKind.GONE, 5, 105, records=5).above(*starts)
    assert rest == (FoundDifference(DifferenceKind.GONE, 10 - left, 110 - left, records=left) if left else None)


@pytest.mark.parametrize(
    ("kind", "at", "stays"),
    [
        (DifferenceKind.MISSING, (5, 105), True),
        (DifferenceKind.MISSING, (4, 105), False),
        (DifferenceKind.MISSING, (5, 104), False),
        (DifferenceKind.EXTRA, (-1, 104), True),
        (DifferenceKind.EXTRA, (4, 105), False),
    ],
)
def test_below_the_start_of_a_log_nothing_is_missing(kind: DifferenceKind, at: tuple[int, int], *, stays: bool) -> None:
    one = FoundDifference(kind, *at)
    assert one.above(5, 105) == (one if stays else None)
