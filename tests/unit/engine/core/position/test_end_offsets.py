"""The parts of the difference between two end offsets."""

import msgspec
import pytest

from engine.core.offset_map.map_runs import MapHead, MapRun, MapStart
from engine.core.position.end_offsets import EndsRow, EndsVerdict, Holes, Kinds, compare_ends, target_holes
from engine.core.position.target_tail import TailBatch

RUNS = (MapRun(0, 0, 10), MapRun(12, 11, 8))
"""Source offsets 10 and 11 were not copied; target offset 10 is none of a record."""
HEAD = MapHead(1, 0, 20, 19, RUNS)
BEGINS = MapStart(0, 0, first=True)
ROW = EndsRow(topic="t", partition=0, target_topic="A.t", source_start=0, source_end=20, target_start=0, target_end=19)


def batch(base: int, end: int, *, control: bool = False, sequence: int = 0) -> TailBatch:
    return TailBatch(base, end, 41, 1, sequence, end - base, control)


def judged(row: EndsRow = ROW, kinds: Kinds | None = None, unseen: int = 0, begins: MapStart = BEGINS) -> EndsRow:
    return compare_ends(row, begins, HEAD, RUNS, kinds or Kinds(markers=1), unseen)


@pytest.mark.parametrize(
    ("first", "end", "stretches"),
    [
        (0, 19, ((10, 11),)),
        (0, 22, ((10, 11), (19, 22))),
        (3, 10, ()),
        (10, 11, ((10, 11),)),
        (0, 11, ((10, 11),)),
        (0, 0, ()),
    ],
)
def test_holes_lie_between_runs_and_behind_them(first: int, end: int, stretches: tuple[tuple[int, int], ...]) -> None:
    assert target_holes(RUNS, first, end) == Holes(stretches)
    assert Holes(stretches).offsets == sum(end - first for first, end in stretches)


def test_headers_say_what_lies_in_a_hole() -> None:
    kinds = Kinds()
    kinds.add(
        10,
        20,
        [
            batch(8, 11),
            batch(11, 12, control=True, sequence=-1),
            batch(12, 14, control=True),
            batch(14, 17),
            batch(20, 22),
        ],
    )
    assert kinds == Kinds(markers=1, rolled_back=2, strangers=4, gone=3)


def test_a_marker_and_source_offsets_without_a_record_explain_the_difference() -> None:
    found = judged()
    assert (found.copied, found.left_out, found.waiting, found.markers) == (18, 2, 0, 1)
    assert (found.verdict, found.fine) == (EndsVerdict.EXPLAINED, True)
    assert found.why == "1 marker, 2 source offsets without a record to copy"


def test_every_offset_is_in_one_part() -> None:
    row = msgspec.structs.replace(ROW, source_end=25, target_end=22)
    found = judged(row, Kinds(markers=2, rolled_back=2))
    holes = found.markers + found.rolled_back + found.strangers + found.gone + found.unseen
    difference = found.shift + holes - found.left_out - found.waiting
    assert difference == found.target_end - found.source_end
    assert found.why == (
        "2 markers, 2 offsets of rolled-back transactions, 2 source offsets without a record to copy, 5 not copied yet"
    )


def test_equal_ends_need_no_word() -> None:
    runs = (MapRun(0, 0, 20),)
    row = msgspec.structs.replace(ROW, target_end=20)
    found = compare_ends(row, BEGINS, MapHead(1, 0, 20, 20, runs), runs, Kinds(), 0)
    assert (found.verdict, found.why, found.fine) == (EndsVerdict.EQUAL, "", True)


@pytest.mark.parametrize(
    ("kinds", "unseen", "begins", "said"),
    [
        (Kinds(strangers=3), 0, BEGINS, "3 records of another writer"),
        (Kinds(gone=1), 0, BEGINS, "1 offset no longer in the log"),
        (Kinds(markers=1), 4, BEGINS, "4 offsets not inspected"),
        (Kinds(markers=1), 0, MapStart(0, 5, first=False), "the map starts later than the copy"),
    ],
)
def test_what_is_neither_a_record_nor_a_marker_is_not_explained(
    kinds: Kinds, unseen: int, begins: MapStart, said: str
) -> None:
    found = judged(kinds=kinds, unseen=unseen, begins=begins)
    assert (found.verdict, found.fine) == (EndsVerdict.UNEXPLAINED, False)
    assert said in found.why
    assert found.why.endswith("run `raymirror verify`")


@pytest.mark.parametrize(("source", "said"), [(300, "below"), (-3, "above")])
def test_a_copy_that_begins_elsewhere_is_shifted(source: int, said: str) -> None:
    found = judged(begins=MapStart(source, 0, first=True))
    assert found.shift == -source
    assert f"{abs(source)} {said}" in found.why
