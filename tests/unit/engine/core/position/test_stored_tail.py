"""The end of the copy by a stored position: atomic positions, and commits that the target did not carry out."""

import msgspec
import pytest

from engine.core.offset_map.map_runs import MapRun
from engine.core.position.map_resume import resumed_map
from engine.core.position.position import Position
from engine.core.position.resume import REGRESSION, ResumePoint, Unknown
from engine.core.position.stored_tail import UNDONE, last_counted, reaches_begin, read_stored_tail, undone_from
from engine.core.position.target_tail import Tail, TailBatch
from tests.unit.engine.core.position.test_resume import NEWER, OURS, foreign, marker, ours
from tests.unit.engine.core.positions import position


def atomic(source_next: int = 107, target_next: int = 57, sequence: int = 7) -> Position:
    return msgspec.structs.replace(position(source_next, target_next, sequence), atomic=True)


def stored(
    at: Position, *batches: TailBatch, end: int, start: int = 0, last: int | None = None
) -> ResumePoint | Unknown:
    return read_stored_tail(at, Tail(log_start=start, end=end, batches=batches, last_sequence=last))


def rolled_back(base: int, sequence: int, count: int) -> TailBatch:
    return msgspec.structs.replace(ours(base, sequence, count), is_control=True)


def test_behind_an_atomic_position_nothing_counts() -> None:
    still_open = msgspec.structs.replace(ours(63, 12, 2), is_open=True)
    answer = stored(atomic(), marker(57), rolled_back(58, 7, 4), marker(62, NEWER), still_open, end=65)
    assert isinstance(answer, ResumePoint)
    assert (answer.source_next, answer.target_next, answer.sequence, answer.tail_records) == (107, 65, 7, 0)
    assert (answer.how, answer.foreign, answer.copied) == ("position", (), ())


def test_behind_an_atomic_position_retention_may_take_everything() -> None:
    for last in (None, 20):
        answer = stored(atomic(), end=90, start=80, last=last)
        assert isinstance(answer, ResumePoint)
        assert (answer.source_next, answer.target_next, answer.how) == (107, 90, "position")


def test_committed_records_without_their_position_are_not_to_be_built_on() -> None:
    answer = stored(atomic(), marker(57), ours(58, 7, 4), marker(62), end=63)
    assert isinstance(answer, Unknown)
    assert (answer.expected, answer.found, "committed here" in answer.cause) == (57, 58, True)


def test_other_writers_and_losses_behind_an_atomic_position_are_told_as_ever() -> None:
    answer = stored(atomic(), marker(57), foreign(58, 2), end=60)
    assert isinstance(answer, ResumePoint)
    assert answer.foreign == ((58, 59),)
    at = msgspec.structs.replace(position(107, 57, 7, ((0, 100),)), atomic=True)
    cut = stored(at, ours(50, 0, 3), end=53)
    assert isinstance(cut, ResumePoint)
    assert (cut.source_next, cut.how) == (103, REGRESSION)
    nothing = stored(atomic(), end=40)
    assert isinstance(nothing, Unknown)


def test_a_plain_position_counts_its_tail() -> None:
    answer = stored(position(), ours(50, 0, 3), end=53)
    assert isinstance(answer, ResumePoint)
    assert (answer.source_next, answer.how) == (103, "tail")


# A former commit ends at 49; [50, 57) is the transaction of the position, its marker should be at 57.
MAPPED = msgspec.structs.replace(
    atomic(107, 57, 7),
    map_generation=5,
    map_source=80,
    map_target=30,
    map_tail=(MapRun(80, 30, 19), MapRun(100, 50, 4), MapRun(104, 54, 3)),
)
FORMER = (TailBatch(30, 49, *OURS, 0, 19, False), marker(49))


def undone(*batches: TailBatch, at: Position = MAPPED) -> ResumePoint | Unknown:
    return stored(at, *FORMER, *batches, end=batches[-1].next_offset)


def test_an_undone_commit_is_gone_back_to_its_first_record() -> None:
    answer = undone(rolled_back(50, 0, 4), rolled_back(54, 4, 3), rolled_back(57, 7, 5), marker(62, NEWER))
    assert isinstance(answer, ResumePoint)
    assert (answer.how, answer.source_next, answer.target_next, answer.target_end) == (UNDONE, 100, 63, 50)
    assert (answer.tail_records, answer.foreign) == (0, ())
    known = resumed_map(MAPPED, answer, 1)
    assert (known.generation, known.runs) == (6, (MapRun(80, 30, 19),))


def test_two_commits_without_markers_are_undone_together() -> None:
    at = msgspec.structs.replace(MAPPED, source_next=110, target_next=60, map_tail=(MapRun(100, 50, 10),))
    answer = undone(rolled_back(50, 0, 4), rolled_back(54, 4, 6), marker(60, NEWER), at=at)
    assert isinstance(answer, ResumePoint)
    assert (answer.how, answer.source_next) == (UNDONE, 100)


def test_what_a_later_commit_covered_is_there() -> None:
    answer = undone(ours(50, 0, 4), ours(54, 4, 3), marker(57), marker(58, NEWER))
    assert isinstance(answer, ResumePoint)
    assert (answer.how, answer.source_next, answer.target_next) == ("position", 107, 59)


def test_a_former_owners_rolled_back_records_are_not_the_positions() -> None:
    former = [msgspec.structs.replace(rolled_back(50, 9, 2), producer_epoch=OURS[1] - 1), marker(52), marker(53)]
    at = msgspec.structs.replace(MAPPED, sequence=3, map_tail=(MapRun(80, 30, 19), MapRun(104, 54, 3)))
    kept = undone(*former, ours(54, 0, 3), marker(57), at=at)
    assert isinstance(kept, ResumePoint)
    assert kept.how == "position"
    gone = undone(*former, rolled_back(54, 0, 3), marker(57, NEWER), at=at)
    assert isinstance(gone, ResumePoint)
    assert (gone.how, gone.source_next, gone.target_end) == (UNDONE, 104, 54)


def test_other_writers_behind_an_undone_commit_are_told() -> None:
    answer = undone(rolled_back(50, 0, 7), foreign(57, 3), marker(60, NEWER))
    assert isinstance(answer, ResumePoint)
    assert (answer.how, answer.foreign) == (UNDONE, ((57, 59),))


def test_an_undone_commit_is_not_built_on_where_it_makes_no_sense() -> None:
    """Records of ours committed behind what was rolled back, and a map that does not reach back: the lane stops."""
    behind = undone(rolled_back(50, 0, 7), marker(57), ours(58, 7, 2), marker(60))
    assert isinstance(behind, Unknown)
    assert (behind.found, "committed here" in behind.cause) == (58, True)
    thin = msgspec.structs.replace(MAPPED, map_blocks=1, map_tail=(MapRun(104, 54, 3),))
    unmapped = undone(rolled_back(50, 0, 7), marker(57, NEWER), at=thin)
    assert isinstance(unmapped, Unknown)
    assert (unmapped.found, unmapped.target_end) == (50, 50)


@pytest.mark.parametrize(
    ("batches", "begin", "reaches"),
    [
        ((rolled_back(54, 4, 3), marker(57)), 54, False),
        ((marker(49), rolled_back(50, 0, 4), rolled_back(54, 4, 3), marker(57)), 50, True),
        ((ours(54, 4, 3), marker(57)), None, False),
        ((marker(56), marker(57)), None, True),
        ((marker(57),), None, False),
        ((), None, False),
    ],
)
def test_what_the_last_batches_tell(batches: tuple[TailBatch, ...], begin: int | None, reaches: bool) -> None:
    assert undone_from(MAPPED, batches) == begin
    assert reaches_begin(MAPPED, batches) is reaches


def test_the_last_record_may_lie_before_what_others_wrote() -> None:
    assert last_counted(MAPPED) == 56
    others = msgspec.structs.replace(MAPPED, target_next=60)
    assert last_counted(others) == 56
    answer = undone(rolled_back(50, 0, 7), foreign(57, 3), marker(60, NEWER), at=others)
    assert isinstance(answer, ResumePoint)
    assert (answer.how, answer.source_next, answer.foreign) == (UNDONE, 100, ())
    assert last_counted(atomic()) == 57, "it counts nothing"
    assert last_counted(msgspec.structs.replace(MAPPED, map_tail=(), map_blocks=3)) < 0
