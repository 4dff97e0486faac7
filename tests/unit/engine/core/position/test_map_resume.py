"""The map of the next owner: recovered from the tail, or cut where the target lost records."""

import msgspec
import pytest

from engine.core.offset_map.map_blocks import BlockPlace, encode_block, read_place
from engine.core.offset_map.map_runs import MapBlock, MapRun, MapStart
from engine.core.position.map_resume import map_reaches, needed_blocks, resumed_map, unfolded
from engine.core.position.position import ForeignPosition, Position
from engine.core.position.resume import REGRESSION, RENEWED, ResumePoint, Unknown, read_tail
from engine.core.position.target_tail import Tail, TailBatch
from tests.unit.engine.core.positions import position

RUNS = (MapRun(90, 40, 4), MapRun(95, 45, 5))
BLOCKS = {
    0: MapBlock(0, 1, (MapRun(60, 10, 5), MapRun(66, 15, 5))),
    1: MapBlock(1, 1, (MapRun(72, 21, 5), MapRun(80, 30, 9))),
}


def mapped(blocks: int = 0, **fields: int) -> Position:
    """A position at 100 -> 50 whose map began at 60 -> 10."""
    return msgspec.structs.replace(
        position(100, 50, 6, ((0, 93), (1, 95), (11, 106))),
        map_generation=4,
        map_blocks=blocks,
        map_source=60,
        map_target=10,
        map_first=True,
        map_tail=RUNS,
        **fields,
    )


def ours(base: int, sequence: int, span: int, producer: tuple[int, int] = (41, 3)) -> TailBatch:
    return TailBatch(base, base + span, *producer, sequence, span, False)


def read(at: Position, *batches: TailBatch, end: int | None = None) -> ResumePoint | Unknown:
    end = max((batch.next_offset for batch in batches), default=at.target_next) if end is None else end
    return read_tail(at, Tail(log_start=0, end=end, batches=batches))


def found(at: Position, *batches: TailBatch, end: int | None = None) -> ResumePoint:
    answer = read(at, *batches, end=end)
    assert isinstance(answer, ResumePoint), answer
    return answer


def test_the_tail_names_the_records_behind_the_position() -> None:
    at = mapped()
    answer = found(at, ours(50, 6, 3), ours(54, 9, 4))
    assert answer.copied == (MapRun(100, 50, 3), MapRun(103, 54, 2), MapRun(106, 56, 2))
    tail = resumed_map(at, answer, 99)
    assert (tail.generation, tail.blocks, tail.start) == (5, 0, MapStart(60, 10, first=True))
    assert tail.runs == (RUNS[0], MapRun(95, 45, 8), *answer.copied[1:])


def test_nothing_behind_the_position_adds_nothing() -> None:
    assert resumed_map(mapped(3), found(mapped(3)), 99).runs == RUNS


@pytest.mark.parametrize(
    ("stored", "foreign", "first"),
    [(None, (), True), (None, ((0, 3),), False), (ForeignPosition(offset=99), (), False)],
)
def test_a_lane_without_a_map_begins_one(
    stored: ForeignPosition | None, foreign: tuple[tuple[int, int], ...], *, first: bool
) -> None:
    place = ResumePoint(source_next=100, target_next=50, sequence=0, how="start", tail_records=0, foreign=foreign)
    tail = resumed_map(stored, place, 99)
    assert (tail.generation, tail.blocks, tail.start, tail.runs) == (99, 0, MapStart(100, 50, first=first), ())


def test_what_mm2_had_copied_behind_its_position_is_in_the_map() -> None:
    copied = (MapRun(100, 50, 3), MapRun(104, 53, 2))
    place = ResumePoint(source_next=106, target_next=56, sequence=0, how="MM2", tail_records=5, copied=copied)
    tail = resumed_map(ForeignPosition(offset=99), place, 99)
    assert (tail.start, tail.runs) == (MapStart(100, 50, first=False), copied)
    ours_first = resumed_map(mapped(), place, 99)
    assert (ours_first.generation, ours_first.runs) == (5, (RUNS[0], MapRun(95, 45, 8), copied[1]))


def test_what_was_found_in_the_wrong_place_begins_the_map_anew() -> None:
    copied = (MapRun(100, 44, 3),)
    place = ResumePoint(source_next=103, target_next=56, sequence=0, how="MM2", tail_records=3, copied=copied)
    tail = resumed_map(mapped(2), place, 99)
    assert (tail.generation, tail.blocks, tail.start, tail.runs) == (5, 0, MapStart(103, 56, first=False), ())


def test_a_position_of_the_first_format_begins_one_with_its_tail() -> None:
    at = position(100, 50, 7)
    tail = resumed_map(at, found(at, ours(50, 7, 3)), 99)
    assert (tail.generation, tail.start, tail.runs) == (99, MapStart(100, 50, first=False), (MapRun(100, 50, 3),))


def test_a_position_of_the_first_format_whose_target_lost_records_begins_where_that_ends() -> None:
    at = position(100, 50, 7, ((0, 93),))
    tail = resumed_map(at, found(at, ours(43, 0, 4), end=47), 99)
    assert (tail.start, tail.runs) == (MapStart(97, 47, first=False), ())


def test_a_regression_cuts_the_tail() -> None:
    at = mapped(2)
    answer = found(at, ours(43, 0, 1), ours(45, 1, 2), end=48)
    assert (answer.how, answer.source_next, answer.target_end) == (REGRESSION, 97, 47)
    tail = resumed_map(at, answer, 99)
    assert (tail.generation, tail.blocks, tail.runs) == (5, 2, (RUNS[0], MapRun(95, 45, 2)))


def test_the_map_says_what_no_run_does() -> None:
    """Of this producer epoch nothing is left; the last batch of the one before ends where the map has record 96."""
    at = mapped(2, sequence=3)
    answer = found(at, ours(45, 600, 2, (41, 2)), end=47)
    assert (answer.how, answer.source_next, answer.target_next, answer.target_end) == (REGRESSION, 97, 47, 47)
    assert resumed_map(at, answer, 99).runs == (RUNS[0], MapRun(95, 45, 2))


@pytest.mark.parametrize(
    "batch",
    [ours(44, 600, 3, (42, 2)), ours(44, 600, 2, (41, 4))],
    ids=["another producer", "of a later epoch"],
)
def test_a_batch_that_the_map_does_not_know_tells_nothing(batch: TailBatch) -> None:
    answer = read(mapped(), batch, end=48)
    assert isinstance(answer, Unknown)
    assert "lost records" in answer.cause


def test_late_requests_take_the_place_of_what_the_map_has_there() -> None:
    """Where the map has a barrier the log has records of the owner before: the ones that the map has behind it."""
    at = mapped(2)
    answer = found(at, ours(40, 596, 4, (41, 2)), ours(44, 600, 3, (41, 2)), end=48)
    assert (answer.how, answer.source_next, answer.target_end) == (REGRESSION, 98, 47)
    tail = resumed_map(at, answer, 99)
    assert (tail.generation, tail.blocks, tail.runs) == (5, 2, (RUNS[0], MapRun(95, 44, 3)))


@pytest.mark.parametrize(("at_offset", "how"), [(47, REGRESSION), (44, "position"), (39, "position")])
def test_a_marker_where_the_map_has_a_record_means_a_loss_that_no_sequence_tells(at_offset: int, how: str) -> None:
    """An owner that has appended nothing yet, and markers of later ones up to its end and beyond."""
    at = msgspec.structs.replace(mapped(), sequence=0, runs=((0, 100),), target_next=51)
    newer = [TailBatch(base, base + 1, 41, 5, -1, 1, True) for base in (at_offset, 50, 51)]
    answer = found(at, ours(45, 600, 2, (41, 2)) if how == REGRESSION else ours(45, 600, 5, (41, 2)), *newer)
    assert (answer.how, answer.source_next) == (how, 97 if how == REGRESSION else 100)


def test_a_cut_in_a_block_asks_for_it() -> None:
    at = mapped(2)
    answer = read(at, ours(30, 600, 3, (41, 2)), end=33)
    assert isinstance(answer, Unknown)
    assert answer.target_end == 33
    assert not map_reaches(at, 33)
    assert map_reaches(at, 41)
    assert map_reaches(mapped(0), 33)  # there is nothing to be read back
    back = unfolded(at, BLOCKS, 33)
    assert (back.map_blocks, back.map_tail) == (1, (*BLOCKS[1].runs, *RUNS))
    again = found(back, ours(30, 600, 3, (41, 2)), end=33)
    assert again.source_next == 83
    tail = resumed_map(back, again, 99)
    assert (tail.blocks, tail.runs) == (1, (MapRun(72, 21, 5), MapRun(80, 30, 3)))


def test_a_cut_below_everything_takes_every_block_back() -> None:
    back = unfolded(mapped(2), BLOCKS, 5)
    assert (back.map_blocks, back.map_tail[0], back.map_start) == (0, MapRun(60, 10, 5), MapStart(60, 10, first=True))
    place = ResumePoint(source_next=50, target_next=5, sequence=0, how=REGRESSION, tail_records=0, target_end=5)
    tail = resumed_map(back, place, 99)
    assert (tail.generation, tail.blocks, tail.start, tail.runs) == (5, 0, MapStart(50, 5, first=False), ())


@pytest.mark.parametrize(("target_end", "needed"), [(5, {0, 1}), (10, {0, 1}), (11, {0, 1}), (21, {0, 1}), (33, {1})])
def test_of_the_blocks_only_those_that_are_cut_into_are_needed(target_end: int, needed: set[int]) -> None:
    places = {number: read_place(encode_block(block), number) for number, block in BLOCKS.items()}
    uncounted = BlockPlace(1, 1, 9)
    found = needed_blocks(mapped(2), {**places, 2: uncounted}, target_end)
    assert found == {number: places[number] for number in needed}
    some = {number: BLOCKS[number] for number in needed}
    assert unfolded(mapped(2), some, target_end) == unfolded(mapped(2), BLOCKS, target_end)


@pytest.mark.parametrize(
    "blocks",
    [{0: BLOCKS[0]}, {1: MapBlock(1, 1, (MapRun(72, 39, 5),))}, {1: MapBlock(1, 1, ())}],
    ids=["missing", "overlaps", "empty"],
)
def test_where_a_block_is_lost_the_map_begins_behind_it(blocks: dict[int, MapBlock]) -> None:
    back = unfolded(mapped(2), blocks, 33)
    assert (back.map_blocks, back.map_tail, back.map_start) == (0, RUNS, MapStart(90, 40, first=False))


def test_without_a_tail_either_the_map_begins_at_the_position() -> None:
    empty = unfolded(msgspec.structs.replace(mapped(2), map_tail=()), {0: BLOCKS[0]}, 33)
    assert (empty.map_tail, empty.map_start) == ((), MapStart(100, 50, first=False))


def moved(source_next: int, cut: int, *copied: MapRun) -> ResumePoint:
    return ResumePoint(
        source_next=source_next, target_next=60, sequence=0, how="tail", tail_records=0, copied=copied, cut=cut
    )


@pytest.mark.parametrize("blocks", [0, 3])
def test_ahead_of_a_hole_the_map_goes_on(blocks: int) -> None:
    tail = resumed_map(mapped(blocks), moved(140, 103, MapRun(100, 50, 3)), 99)
    assert (tail.generation, tail.blocks, tail.start) == (5, blocks, MapStart(60, 10, first=True))
    assert tail.runs == (RUNS[0], MapRun(95, 45, 8))


def test_ahead_of_a_hole_what_the_target_lost_goes() -> None:
    answer = msgspec.structs.replace(moved(140, 97), how=REGRESSION, target_end=47)
    assert resumed_map(mapped(2), answer, 99).runs == (RUNS[0], MapRun(95, 45, 2))


def test_where_history_parts_the_map_is_cut() -> None:
    tail = resumed_map(mapped(), moved(92, 92), 99)
    assert (tail.start, tail.runs) == (MapStart(60, 10, first=True), (MapRun(90, 40, 2),))
    tail = resumed_map(mapped(2), moved(97, 97, MapRun(100, 50, 3)), 99)
    assert (tail.blocks, tail.runs) == (2, (RUNS[0], MapRun(95, 45, 2)))


@pytest.mark.parametrize("source_next", [90, 70])
def test_a_cut_that_reaches_into_blocks_begins_the_map_anew(source_next: int) -> None:
    tail = resumed_map(mapped(2), moved(source_next, source_next), 99)
    assert (tail.generation, tail.blocks, tail.runs) == (5, 0, ())
    assert tail.start == MapStart(source_next, 60, first=False)


def test_a_history_that_parts_before_the_map_begins_it_anew() -> None:
    tail = resumed_map(mapped(), moved(50, 50), 99)
    assert (tail.start, tail.runs) == (MapStart(50, 60, first=False), ())


def test_a_tail_that_does_not_follow_is_not_believed_at_a_gap_either() -> None:
    tail = resumed_map(mapped(), moved(140, 103, MapRun(91, 50, 3)), 99)
    assert (tail.start, tail.runs) == (MapStart(140, 60, first=False), ())


def test_what_mm2_copied_is_cut_where_history_parts() -> None:
    at = ForeignPosition(offset=120)
    tail = resumed_map(at, moved(105, 105, MapRun(100, 50, 8)), 99)
    assert (tail.start, tail.runs) == (MapStart(100, 50, first=False), (MapRun(100, 50, 5),))
    tail = resumed_map(at, moved(90, 90, MapRun(100, 50, 8)), 99)
    assert (tail.start, tail.runs) == (MapStart(90, 60, first=False), ())


@pytest.mark.parametrize("whole", [True, False])
def test_the_map_of_a_topic_made_anew_begins_anew(whole: bool) -> None:
    answer = ResumePoint(source_next=7, target_next=60, sequence=0, how=RENEWED, tail_records=0, whole=whole)
    tail = resumed_map(mapped(2), answer, 99)
    assert (tail.generation, tail.blocks, tail.runs) == (5, 0, ())
    assert tail.start == MapStart(7, 60, first=whole)
