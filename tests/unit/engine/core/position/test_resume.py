"""The end of the copy, from a position and the target's batch headers."""

import msgspec
import pytest

from engine.core.offset_map.map_runs import MapRun, MapStart
from engine.core.position.map_resume import resumed_map
from engine.core.position.parting import may_be_late
from engine.core.position.position import SEQUENCE_SPAN, Behind, Position, Run, Seen
from engine.core.position.resume import REGRESSION, ResumePoint, Unknown, judged_from, read_tail
from engine.core.position.right_before import ends_as_left
from engine.core.position.stored_tail import read_stored_tail
from engine.core.position.target_tail import Tail, TailBatch
from tests.unit.engine.core.positions import position

OURS = (41, 3)


def ours(base: int, sequence: int, count: int, producer: tuple[int, int] = OURS) -> TailBatch:
    return TailBatch(base, base + count, *producer, sequence % SEQUENCE_SPAN, count, False)


def foreign(base: int, count: int = 1) -> TailBatch:
    return TailBatch(base, base + count, -1, -1, -1, count, False)


def marker(base: int, producer: tuple[int, int] = OURS) -> TailBatch:
    return TailBatch(base, base + 1, *producer, -1, 1, True)


def read(at: Position, *batches: TailBatch, end: int | None = None, start: int = 0, last: int | None = None) -> object:
    reached = batches[-1].next_offset if batches else at.target_next
    tail = Tail(log_start=start, end=reached if end is None else end, batches=batches, last_sequence=last)
    return read_tail(at, tail)


def found(at: Position, *batches: TailBatch, **options: int) -> ResumePoint:
    answer = read(at, *batches, **options)
    assert isinstance(answer, ResumePoint), answer
    return answer


def test_no_tail_is_the_position_itself() -> None:
    answer = found(position(100, 50, 7, ((0, 80),)))  # what was skipped behind the last record is known: not 87
    assert (answer.source_next, answer.target_next, answer.sequence) == (100, 50, 7)
    assert (answer.how, answer.tail_records, answer.foreign) == ("position", 0, ())


def test_a_tail_of_ours_is_counted_by_its_last_sequence() -> None:
    answer = found(position(), ours(50, 0, 3), ours(53, 3, 2))
    assert (answer.source_next, answer.target_next, answer.sequence) == (105, 55, 5)
    assert (answer.how, answer.tail_records) == ("tail", 5)


def test_a_tail_that_the_cleaner_thinned_is_known_by_what_it_left() -> None:
    """Whole batches are gone and one has lost records; spans and sequences of headers stay (KIP-98)."""
    answer = found(position(), ours(55, 5, 4), end=60)
    assert (answer.source_next, answer.target_next, answer.tail_records) == (109, 60, 9)


@pytest.mark.parametrize("before", [1, 3, 5])
def test_sequences_wrap(before: int) -> None:
    sequence = SEQUENCE_SPAN - before
    answer = found(position(100, 50, sequence), ours(50, sequence, 3), ours(53, sequence + 3, 4))
    assert (answer.source_next, answer.sequence) == (107, sequence + 7)


def test_a_position_behind_the_wrap_knows_the_batch_before_it() -> None:
    sequence = SEQUENCE_SPAN + 2
    answer = found(position(100, 50, sequence), ours(46, sequence - 4, 4), ours(50, sequence, 1))
    assert answer.source_next == 101


def test_control_markers_are_nobodys_records() -> None:
    answer = found(position(), marker(50), ours(51, 0, 2), marker(53, (41, 4)))
    assert (answer.source_next, answer.target_next, answer.foreign) == (102, 54, ())


@pytest.mark.parametrize(
    ("batches", "ranges"),
    [
        ((foreign(50, 2), ours(52, 0, 3)), ((50, 51),)),
        ((ours(50, 0, 3), foreign(53)), ((53, 53),)),
        ((ours(50, 0, 1), foreign(51), foreign(52, 2), ours(54, 1, 2)), ((51, 53),)),
        ((foreign(50), ours(51, 0, 3), foreign(54)), ((50, 50), (54, 54))),
    ],
    ids=["before", "after", "between", "both"],
)
def test_batches_of_another_writer_are_named(batches: tuple[TailBatch, ...], ranges: tuple[Run, ...]) -> None:
    answer = found(position(), *batches)
    assert (answer.source_next, answer.foreign) == (103, ranges)
    assert answer.target_next == batches[-1].next_offset


@pytest.mark.parametrize("producer", [(41, 2), (41, 4), (42, 3)])
def test_another_epoch_or_producer_is_another_writer(producer: tuple[int, int]) -> None:
    answer = found(position(), ours(50, 0, 2, producer))
    assert (answer.source_next, answer.foreign) == (100, ((50, 51),))


@pytest.mark.parametrize(
    ("count", "source_next"),
    [(1, 101), (2, 110), (3, 111), (4, 112), (5, 200), (6, 201)],
)
def test_runs_with_holes_also_where_a_break_is_exactly_the_end(count: int, source_next: int) -> None:
    """Runs 100, 101 | 110, 111, 112 | 200 ...; a tail that ends at a break goes on behind the hole."""
    at = position(100, 50, 0, ((0, 100), (2, 110), (5, 200)))
    assert found(at, ours(50, 0, count)).source_next == source_next


def test_batches_that_came_after_the_end_offset_was_asked_for_move_the_end() -> None:
    answer = found(position(), ours(50, 0, 2), ours(52, 2, 2), end=52)
    assert (answer.source_next, answer.target_next) == (104, 54)


def test_a_tail_half_eaten_by_retention_is_known_by_what_is_left() -> None:
    answer = found(position(), ours(57, 7, 2), start=57)
    assert (answer.source_next, answer.how) == (109, "tail")


def test_a_tail_eaten_by_retention_is_known_by_the_brokers_producer_state() -> None:
    answer = found(position(), marker(60), start=60, last=8)
    assert (answer.source_next, answer.how, answer.tail_records) == (109, "producer state", 9)


def test_producer_state_wraps_too() -> None:
    answer = found(position(100, 50, SEQUENCE_SPAN - 2), start=60, end=60, last=1)
    assert (answer.source_next, answer.sequence) == (104, SEQUENCE_SPAN + 2)


def test_producer_state_that_ends_at_the_position_knows_that_nothing_of_ours_was_eaten() -> None:
    answer = found(position(100, 50, 7, ((0, 80),)), start=60, end=60, last=6)
    assert (answer.source_next, answer.sequence) == (100, 7)


def test_producer_state_that_lies_behind_the_position_is_not_believed() -> None:
    answer = read(position(100, 50, 7), start=60, end=60, last=3)
    assert isinstance(answer, Unknown)
    assert "producer state" in answer.cause


def test_a_tail_eaten_by_retention_without_producer_state_is_unknown() -> None:
    answer = read(position(), start=60, end=60)
    assert isinstance(answer, Unknown)
    assert (answer.expected, answer.found) == (50, 60)
    assert "retention" in answer.cause


def test_a_sequence_that_no_run_covers_is_unknown() -> None:
    answer = read(position(runs=()), ours(50, 0, 2))
    assert isinstance(answer, Unknown)
    assert "no run covers" in answer.cause


def test_a_target_that_ends_below_the_position_rewinds_to_what_it_still_has() -> None:
    at = position(107, 57, 7, ((0, 100),))
    answer = found(at, ours(50, 0, 2), ours(52, 2, 3), end=55)
    assert (answer.source_next, answer.target_next, answer.sequence, answer.how) == (105, 55, 5, REGRESSION)


def test_a_regression_across_a_wrap() -> None:
    sequence = SEQUENCE_SPAN + 3
    at = position(107, 57, sequence, ((sequence - 7, 100),))
    answer = found(at, ours(50, sequence - 7, 2), end=52)
    assert (answer.source_next, answer.sequence) == (102, sequence - 5)


@pytest.mark.parametrize("batches", [(), (ours(50, 0, 2),)], ids=["nothing of ours", "older than every run"])
def test_a_regression_that_no_run_covers_is_unknown(batches: tuple[TailBatch, ...]) -> None:
    answer = read(position(107, 57, 7, ((6, 106),)), *batches, end=52)
    assert isinstance(answer, Unknown)
    assert "lost records that it had acknowledged" in answer.cause


@pytest.mark.parametrize(
    ("batches", "cause"),
    [
        ((ours(50, 0, 3), ours(53, 5, 2)), "missing"),
        ((ours(50, 2, 3),), "missing"),
        ((ours(50, 0, 3), marker(53), ours(54, 5, 2)), "missing"),
        ((ours(50, 0, 3), ours(53, 0, 3)), "twice"),
        ((ours(50, 0, 3), foreign(53), ours(54, 1, 2)), "twice"),
    ],
)
def test_sequences_that_break_where_no_offset_is_missing_are_never_taken_for_whole(
    batches: tuple[TailBatch, ...], cause: str
) -> None:
    answer = read(position(), *batches)
    assert isinstance(answer, Unknown)
    assert cause in answer.cause
    assert answer.found == batches[-1].base_offset


def test_where_retention_took_the_beginning_the_first_sequence_says_nothing() -> None:
    assert found(position(), ours(60, 10, 2), start=60).sequence == 12


NEWER = (41, 4)


def test_a_marker_that_stands_where_our_last_record_stood_means_that_it_is_lost() -> None:
    at = position(107, 57, 7, ((0, 100),))
    answer = found(at, ours(50, 0, 2), ours(52, 2, 4), marker(56, NEWER))
    assert (answer.source_next, answer.target_next, answer.sequence, answer.how) == (106, 57, 6, REGRESSION)


def test_a_marker_of_our_own_before_the_position_is_none_of_that() -> None:
    assert found(position(107, 57, 7, ((0, 100),)), marker(56), ours(57, 7, 1)).source_next == 108
    assert found(position(107, 57, 7, ((0, 100),)), ours(55, 5, 2), marker(57, NEWER)).how == "position"


def test_two_barriers_at_once_lose_nothing() -> None:
    """The position of the slower one names the marker of the faster one as the end."""
    at = position(100, 52, 0)
    answer = found(at, ours(40, 3, 10, (41, 2)), marker(50), marker(51, NEWER), marker(52, (41, 5)))
    assert (answer.source_next, answer.how) == (100, "position")


def test_a_marker_in_the_place_of_everything_we_appended_is_unknown() -> None:
    answer = read(position(107, 57, 7, ((0, 100),)), ours(40, 3, 16, (41, 2)), marker(56, NEWER))
    assert isinstance(answer, Unknown)
    assert "lost records" in answer.cause


def test_a_batch_that_reaches_across_the_position_was_appended_to_a_log_that_had_been_cut() -> None:
    at = position(107, 57, 7, ((0, 100),))
    answer = read(at, ours(50, 0, 3), ours(53, 7, 6))
    assert isinstance(answer, Unknown)
    assert (answer.found, "missing" in answer.cause) == (53, True)
    rewound = found(at, ours(50, 0, 3), foreign(53, 6))
    assert (rewound.source_next, rewound.how, rewound.foreign) == (103, REGRESSION, ((53, 58),))


def test_a_hole_in_what_a_cut_log_still_has_is_not_built_on() -> None:
    at = position(120, 70, 20, ((0, 100),))
    answer = read(at, ours(50, 0, 2), ours(52, 7, 3), end=55)
    assert isinstance(answer, Unknown)
    assert (answer.found, "missing" in answer.cause) == (52, True)
    thinned = found(at, ours(50, 0, 2), ours(57, 7, 3), end=60)  # the cleaner's holes are holes in the offsets too
    assert (thinned.source_next, thinned.how) == (110, REGRESSION)


# --- requests of an earlier owner that a broker took up late ----------------------------------------------------------

EARLIER, OTHER = (41, 2), (77, 5)
OUR_MAP = (MapRun(90, 40, 10), MapRun(100, 51, 3), MapRun(110, 54, 20))
"""Records up to target offset 49, the barrier of this epoch at 50, then its own; the source has no 103 to 109."""


def cut_off(*batches: TailBatch, tail: tuple[MapRun, ...] = OUR_MAP, end: int | None = None) -> object:
    at = msgspec.structs.replace(position(130, 74, 23, ((23, 130),)), map_tail=tail)
    return read(at, ours(45, 700, 5, EARLIER), *batches, end=end)


@pytest.mark.parametrize(
    ("late", "source_next", "copied"),
    [
        ((ours(50, 705, 1, EARLIER),), 101, ((100, 50, 1),)),
        ((ours(50, 705, 3, EARLIER),), 103, ((100, 50, 3),)),
        ((ours(50, 705, 4, EARLIER),), 111, ((100, 50, 3), (110, 53, 1))),
        ((ours(50, 705, 2, EARLIER), ours(52, 707, 6, EARLIER)), 115, ((100, 50, 3), (110, 53, 5))),
    ],
)
def test_late_requests_of_an_earlier_owner_are_counted_by_their_records_and_not_by_their_offsets(
    late: tuple[TailBatch, ...], source_next: int, copied: tuple[tuple[int, int, int], ...]
) -> None:
    """A leader by an unclean election has them where the map has this owner's barrier."""
    end = late[-1].next_offset
    answer = cut_off(*late, marker(end, NEWER))
    assert isinstance(answer, ResumePoint)
    assert (answer.source_next, answer.how, answer.target_end) == (source_next, REGRESSION, end)
    assert (answer.target_next, answer.copied, answer.foreign) == (end + 1, copied, ())


@pytest.mark.parametrize("at_once", [True, False])
def test_late_requests_with_more_records_than_this_owner_appended(at_once: bool) -> None:
    """The rest are those behind the position, as its runs have them; 102 is one of the source's markers."""
    at = position(100, 51, 0, ((0, 100), (2, 103)))
    at = msgspec.structs.replace(at, map_tail=OUR_MAP[:1])
    spans = [(0, 5)] if at_once else [(step, 1) for step in range(5)]
    late = [ours(50 + step, 705 + step, count, EARLIER) for step, count in spans]
    answer = found(at, ours(45, 700, 5, EARLIER), *late, marker(55, NEWER))
    assert (answer.source_next, answer.how, answer.foreign) == (106, REGRESSION, ())
    assert answer.copied == ((100, 50, 2), (103, 52, 3))
    some = msgspec.structs.replace(
        at, source_next=101, target_next=52, sequence=1, map_tail=(*OUR_MAP[:1], MapRun(100, 51, 1))
    )
    assert found(some, ours(45, 700, 5, EARLIER), *late, marker(55, NEWER)) == msgspec.structs.replace(
        answer, sequence=1
    )


def test_late_requests_with_records_that_no_run_has_are_unknown() -> None:
    at = msgspec.structs.replace(position(100, 51, 0, ()), map_tail=OUR_MAP[:1])
    answer = read(at, ours(45, 700, 5, EARLIER), ours(50, 705, 3, EARLIER), marker(53, NEWER))
    assert isinstance(answer, Unknown)
    assert (answer.found, "batches of this lane" in answer.cause) == (50, True)


def test_a_log_that_has_this_owners_barrier_has_no_late_requests() -> None:
    answer = cut_off(marker(50), ours(51, 0, 3), marker(54, NEWER))
    assert isinstance(answer, ResumePoint)
    assert (answer.source_next, answer.copied) == (103, ())


def test_a_log_that_ends_before_this_owners_barrier_is_known_by_the_map() -> None:
    answer = cut_off(marker(50, NEWER))
    assert isinstance(answer, ResumePoint)
    assert (answer.source_next, answer.target_end, answer.copied) == (100, 50, ())


@pytest.mark.parametrize(
    ("sequence", "tail", "is_late"),
    [
        (1, OUR_MAP[:2], True),  # this epoch has appended the record before the position
        (0, OUR_MAP[:1], True),  # this epoch's barrier is before the position
        (0, (*OUR_MAP[:1], MapRun(100, 50, 1)), False),  # without a barrier the position follows the earlier epoch
        (0, (), False),  # what the map has there is in its blocks
    ],
)
def test_a_record_of_an_earlier_owner_right_before_the_position_may_be_late(
    sequence: int, tail: tuple[MapRun, ...], is_late: bool
) -> None:
    at = msgspec.structs.replace(position(101, 51, sequence, ((0, 101),)), map_tail=tail)
    last, barrier = ours(50, 705, 1, EARLIER), marker(51, NEWER)
    assert may_be_late(at, Tail(log_start=0, end=52, batches=(last, barrier))) is is_late
    assert not may_be_late(at, Tail(log_start=0, end=52, batches=(ours(49, 704, 1, EARLIER), marker(51, NEWER))))


def test_the_marker_of_an_earlier_owner_before_one_without_a_barrier_is_no_doubt() -> None:
    at = msgspec.structs.replace(position(100, 50, 0), map_tail=(MapRun(51, 0, 49),))
    tail = Tail(log_start=0, end=50, batches=(marker(49, EARLIER),))
    assert not may_be_late(at, tail)
    assert may_be_late(msgspec.structs.replace(at, sequence=1), tail), "this epoch has appended something there"
    assert may_be_late(at, msgspec.structs.replace(tail, batches=(marker(49, NEWER),)))


def test_such_a_marker_does_not_make_records_late_that_the_map_lacks_on_purpose() -> None:
    """Offsets 40 to 48 are records of a source history that has parted."""
    at = msgspec.structs.replace(position(40, 50, 0), map_tail=(MapRun(0, 0, 40),))
    older = (ours(0, 0, 40, EARLIER), ours(40, 40, 9, EARLIER), marker(49, EARLIER))
    answer = read(at, *older, end=50)
    assert isinstance(answer, ResumePoint)
    assert (answer.how, answer.source_next) == ("position", 40)


@pytest.mark.parametrize("other", [foreign(53), marker(53)])
def test_holes_of_the_cleaner_may_lie_before_what_others_wrote(other: TailBatch) -> None:
    assert found(position(), other, ours(54, 3, 2)).source_next == 105
    few = read(position(), other, ours(54, 4, 2))
    assert isinstance(few, Unknown), "three offsets are missing, and four records"
    assert (few.found, "missing" in few.cause) == (54, True)
    at = position(105, 56, 5, ((0, 100),))
    cut = found(at, ours(50, 0, 1), other, ours(54, 3, 1), end=55)
    assert (cut.source_next, cut.how) == (104, REGRESSION)


BEFORE = (MapRun(0, 0, 40),)
"""A map without a record right before target offset 50."""
WITH_LAST = (*BEFORE, MapRun(60, 47, 3))
BEFORE_THE_MAP = ()


@pytest.mark.parametrize(
    ("sequence", "known", "last", "is_there"),
    [
        (3, WITH_LAST, ours(47, 0, 3), True),
        (3, WITH_LAST, ours(48, 0, 2), False),  # too few
        (3, WITH_LAST, ours(47, 4, 3), False),  # others of this owner
        (3, WITH_LAST, ours(47, 0, 4), False),  # it spans the position
        (3, WITH_LAST, ours(44, 0, 3), True),  # nothing is left right before the position
        (3, WITH_LAST, ours(47, 0, 3, EARLIER), False),
        (3, WITH_LAST, ours(47, 0, 3, NEWER), False),
        (3, WITH_LAST, foreign(47, 3), False),
        (3, WITH_LAST, marker(49), False),  # in the place of the last record, by a late commit or keep-alive
        (3, WITH_LAST, marker(49, OTHER), False),
        (3, BEFORE, marker(49), True),  # settled behind a marker of its own
        (3, BEFORE, marker(49, EARLIER), False),
        (3, BEFORE, marker(49, OTHER), True),  # settled behind another writer's
        (3, BEFORE, foreign(47, 3), True),
        (3, BEFORE, ours(47, 0, 3), False),
        (3, BEFORE_THE_MAP, ours(47, 0, 3), True),
        (3, BEFORE_THE_MAP, foreign(47, 3), False),
        (3, BEFORE_THE_MAP, ours(47, 0, 3, EARLIER), False),
        (0, BEFORE, marker(49), True),
        (0, BEFORE, marker(49, EARLIER), True),  # without a barrier, behind one
        (0, BEFORE, marker(49, NEWER), False),
        (0, BEFORE, ours(47, 0, 3, EARLIER), False),
        (0, BEFORE, foreign(47, 3), True),
        (0, WITH_LAST, ours(47, 0, 3, EARLIER), True),  # without a barrier, behind records
        (0, WITH_LAST, ours(47, 0, 3, OTHER), False),
        (0, WITH_LAST, ours(47, 0, 3, NEWER), False),
        (0, WITH_LAST, marker(49, EARLIER), False),
        (0, BEFORE_THE_MAP, ours(47, 0, 3, EARLIER), True),
        (0, BEFORE_THE_MAP, ours(47, 0, 3, OTHER), True),
        (0, BEFORE_THE_MAP, marker(49, EARLIER), True),
    ],
)
def test_what_is_right_before_a_position_is_what_its_owner_left_there(
    sequence: int, known: tuple[MapRun, ...], last: TailBatch, is_there: bool
) -> None:
    at = msgspec.structs.replace(position(100, 50, sequence), map_tail=known)
    assert ends_as_left(at, [last]) is is_there


def test_without_transactional_ids_an_owner_follows_records_of_another_id() -> None:
    at = msgspec.structs.replace(position(100, 50, 0, producer=(41, 0)), map_tail=WITH_LAST)
    assert ends_as_left(at, [ours(47, 0, 3, OTHER)])
    assert not ends_as_left(at, [marker(49, OTHER)])
    assert not ends_as_left(msgspec.structs.replace(at, sequence=3), [ours(47, 0, 3, OTHER)])


@pytest.mark.parametrize(
    ("last", "is_there"),
    [
        (marker(49), True),
        (marker(49, EARLIER), True),  # this owner has none, and follows one that had
        (marker(49, NEWER), False),
        (marker(49, OTHER), False),
        (ours(47, 0, 3, EARLIER), False),
        (ours(47, 0, 3, OTHER), False),
        (foreign(49), False),
    ],
)
@pytest.mark.parametrize("known", [BEFORE, BEFORE_THE_MAP])
def test_nothing_else_can_take_the_place_of_a_marker(
    last: TailBatch, is_there: bool, known: tuple[MapRun, ...]
) -> None:
    at = msgspec.structs.replace(position(100, 50, 0), map_tail=known, behind=Seen(Behind.MARKER))
    assert ends_as_left(at, [last]) is is_there


def test_a_first_owners_late_requests_are_late_although_no_map_has_a_record() -> None:
    """The second owner has only its barrier, at 1; this log has the first owner's record there, and another one."""
    at = msgspec.structs.replace(
        position(0, 2, 0), behind=Seen(Behind.MARKER), map_source=0, map_target=2, map_first=True
    )
    answer = found(at, marker(0, EARLIER), ours(1, 0, 1, EARLIER), ours(2, 1, 2, EARLIER), marker(4, NEWER))
    assert (answer.source_next, answer.how, answer.copied) == (3, REGRESSION, ((0, 1, 3),))
    known = resumed_map(at, answer, 1)
    assert (known.start, known.runs) == (MapStart(0, 1, first=True), ((0, 1, 3),))


def test_a_log_that_lacks_a_marker_of_ours_may_end_a_later_batch_where_the_position_is() -> None:
    """The map has 6 at 8, behind a marker at 7. This log has 6 at 7, and 7 at 8."""
    at = msgspec.structs.replace(position(7, 9, 7), map_tail=(MapRun(0, 1, 6), MapRun(6, 8, 1)))
    assert not ends_as_left(at, [ours(8, 7, 1)])
    answer = found(at, ours(7, 6, 1), ours(8, 7, 1), marker(9, NEWER))
    assert (answer.source_next, answer.copied) == (8, ((6, 7, 2),)), "record 7 would be copied again"


def test_a_position_behind_another_writers_marker_is_no_loss() -> None:
    at = msgspec.structs.replace(position(6, 8, 6), map_tail=(MapRun(0, 1, 6),))
    tail = (ours(1, 0, 6), marker(7, OTHER), marker(8, NEWER))
    assert may_be_late(at, Tail(log_start=0, end=9, batches=tail[1:])), "more must be read to know"
    assert found(at, *tail).how == "position"


@pytest.mark.parametrize(("last", "is_there"), [(foreign(49), True), (marker(49, OTHER), True), (marker(49), False)])
def test_behind_another_writer_is_what_another_writer_wrote(last: TailBatch, is_there: bool) -> None:
    """Its record may be in the map, as those of MM2 are that raymirror has taken over."""
    at = msgspec.structs.replace(position(100, 50, 0), map_tail=WITH_LAST, behind=Seen(Behind.OTHERS))
    assert ends_as_left(at, [last]) is is_there


def test_markers_of_two_next_owners_are_in_the_place_of_more_than_a_barrier() -> None:
    """48 was a record from before the map's start, and 49 this owner's barrier: both are lost."""
    at = msgspec.structs.replace(position(100, 50, 0), behind=Seen(Behind.MARKER), map_source=100, map_target=50)
    first, second = marker(48, NEWER), marker(49, (41, 5))
    assert isinstance(read(at, foreign(40, 8), first, second, end=50), Unknown)
    assert found(at, foreign(40, 9), second, end=50).how == "position", "only the barrier is lost"


def test_what_retention_took_behind_another_writers_marker_is_no_loss() -> None:
    at = msgspec.structs.replace(position(6, 9, 6), map_tail=(MapRun(0, 1, 6),))
    behind = (foreign(7), marker(8, OTHER), marker(9, NEWER))
    assert found(at, ours(1, 0, 6), *behind).how == "position"
    assert found(at, *behind, start=7).how == "position"
    cut = read(at, foreign(1, 7), marker(8, OTHER), marker(9, NEWER))
    assert isinstance(cut, Unknown), "others wrote where the map has records"


def test_holes_on_purpose_are_not_late_because_of_another_writers_marker() -> None:
    """Offsets 40 to 48 are records of a source history that has parted; the owner before left at 50."""
    at = msgspec.structs.replace(position(40, 52, 0), map_source=0, map_target=0, map_tail=(MapRun(0, 0, 40),))
    older = (ours(0, 0, 40, EARLIER), ours(40, 40, 9, EARLIER), marker(49, EARLIER))
    assert found(at, *older, foreign(50), marker(51, OTHER), marker(52, NEWER)).how == "position"


@pytest.mark.parametrize("atomic", [False, True])
def test_a_marker_of_this_owner_behind_late_requests_is_not_its_barrier(atomic: bool) -> None:
    """The map has 0 to 5 at 1 to 6, the barrier at 7, and 6 and 7 behind it. Here they are in its place."""
    at = msgspec.structs.replace(position(8, 10, 2), map_tail=(MapRun(0, 1, 6), MapRun(6, 8, 2)), atomic=atomic)
    before = (marker(0, EARLIER), ours(1, 0, 6, EARLIER), ours(7, 6, 1, EARLIER))
    tail = (*before, ours(8, 7, 1, EARLIER), marker(9), marker(10, NEWER))
    answer = read_stored_tail(at, Tail(log_start=0, end=11, batches=tail))
    assert isinstance(answer, ResumePoint)
    assert (answer.source_next, answer.copied) == (8, ((6, 7, 2),))


def test_another_writer_between_late_requests_is_told_of() -> None:
    at = msgspec.structs.replace(position(9, 11, 3), map_tail=(MapRun(0, 1, 6), MapRun(6, 8, 3)))
    late = (ours(7, 6, 1, EARLIER), foreign(8, 2), ours(10, 7, 1, EARLIER))
    answer = found(at, marker(0, EARLIER), ours(1, 0, 6, EARLIER), *late, marker(11), marker(12, NEWER))
    assert (answer.source_next, answer.foreign) == (8, ((8, 9),))


def test_an_older_epochs_end_among_the_owners_own_records_is_of_late_requests() -> None:
    """All that is left is of an earlier owner, and ends where the map has the second of four records of this one."""
    at = msgspec.structs.replace(position(104, 54, 4), map_tail=(MapRun(60, 10, 40), MapRun(100, 50, 4)))
    answer = found(at, ours(40, 700, 12, EARLIER), foreign(52), marker(53, NEWER))
    assert (answer.source_next, answer.copied, answer.foreign) == (102, ((90, 40, 12),), ((52, 52),))


def test_how_far_back_the_map_must_reach() -> None:
    at = msgspec.structs.replace(position(130, 74, 23, ((23, 130),)), map_tail=OUR_MAP)
    older, late = ours(45, 700, 5, EARLIER), ours(50, 705, 3, EARLIER)
    assert judged_from(at, Tail(log_start=0, end=53, batches=(older, late))) == 45
    assert judged_from(at, Tail(log_start=0, end=54, batches=(marker(50), ours(51, 0, 3)))) == 51
    assert judged_from(at, Tail(log_start=0, end=74, batches=(older, marker(50), ours(73, 22, 1)))) == -1
    assert judged_from(at, Tail(log_start=0, end=74, batches=(ours(73, 22, 1),))) == -1
    assert judged_from(at, Tail(log_start=0, end=53, batches=())) == -1
