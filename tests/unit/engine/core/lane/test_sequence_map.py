"""The sequence map of a lane: breaks, cuts, expected runs, and which of them are durable."""

import msgspec
import pytest

from engine.core.lane.sequence_map import SequenceMap
from engine.core.position.announced_runs import Ahead
from tests.unit.engine.core.positions import position


def line() -> SequenceMap:
    """A line at sequence 0, source offset 100, whose position is durable."""
    made = SequenceMap(position())
    made.on_durable(made.version)
    return made


def test_a_new_line_holds_everything_back_until_its_position_is_durable() -> None:
    made = SequenceMap(position())
    assert made.holds_back(1)
    assert not made.holds_back(0)
    made.on_durable(made.version)
    assert not made.holds_back(10**9)


def test_a_straight_line_stays_one_run() -> None:
    made = line()
    made.extend(100, 5)
    made.extend(105, 5)
    assert (made.sequence, made.pending, made.undurable_from) == (10, 1, None)
    assert made.source_of(9) == 109


def test_a_break_holds_back_what_lies_behind_it_only() -> None:
    made = line()
    made.extend(100, 5)
    made.extend(107, 5)
    assert not made.holds_back(5)
    assert made.holds_back(6)
    assert (made.source_of(4), made.source_of(5)) == (104, 107)
    made.on_durable(made.version)
    assert not made.holds_back(10)


def test_a_break_before_the_first_record_takes_the_place_of_the_first_run() -> None:
    made = line()
    made.extend(103, 2)
    assert made.runs_from(0) == ((0, 103),)
    assert made.holds_back(1)


def test_of_several_breaks_those_known_to_the_durable_position_let_go() -> None:
    made = line()
    made.extend(100, 2)
    made.extend(110, 2)
    version = made.version
    made.extend(120, 2)
    made.on_durable(version)
    assert made.undurable_from == 4
    assert not made.holds_back(4)
    assert made.holds_back(5)


def test_runs_behind_the_position_are_forgotten() -> None:
    made = line()
    made.extend(100, 2)
    made.extend(110, 2)
    made.extend(120, 2)
    assert made.runs_from(3) == ((2, 110), (4, 120))
    assert made.source_of(1) is None
    assert made.pending == 2
    assert made.runs_from(4) == ((4, 120),)


def test_a_cut_forgets_breaks_and_goes_on_from_its_place() -> None:
    made = line()
    made.extend(100, 4)
    made.extend(110, 2)
    made.cut(2)
    assert made.sequence == 2
    made.extend(102, 3)
    assert made.runs_from(0) == ((0, 100), (2, 102))
    assert made.source_of(4) == 104


def test_a_cut_before_every_break_changes_nothing_but_the_end() -> None:
    made = line()
    made.extend(100, 4)
    made.cut(2)
    assert (made.sequence, made.pending, made.undurable_from) == (2, 1, None)


def test_a_cut_at_the_start_of_the_first_run_leaves_one_run_there() -> None:
    made = line()
    made.extend(100, 4)
    made.extend(110, 2)
    made.cut(0)
    assert made.runs_from(0) == ((0, 100),)
    assert made.undurable_from == 0


def test_behind_a_cut_through_a_durable_run_nothing_goes_before_a_position_without_that_run() -> None:
    made = line()
    made.extend(100, 4)
    made.extend(110, 2)  # this replica has no record at 104 to 109
    stored = made.version
    made.on_durable(stored)
    made.cut(4)
    made.extend(104, 2)  # the next one has
    assert not made.holds_back(4)
    assert made.holds_back(5)
    made.on_durable(stored)  # an answer that comes late
    assert made.holds_back(5)
    made.on_durable(made.version)
    assert not made.holds_back(6)
    assert list(made.stretches(0, 6)) == [(100, 4), (104, 2)]


def test_behind_a_cut_through_a_run_whose_position_is_on_its_way_nothing_goes_either() -> None:
    made = line()
    made.extend(100, 4)
    made.extend(110, 2)
    written = made.version
    made.cut(3)
    made.extend(103, 3)
    made.on_durable(written)
    assert made.holds_back(4)
    assert not made.holds_back(3)


def test_a_cut_keeps_what_was_held_back_before_it() -> None:
    made = line()
    made.extend(100, 2)
    made.extend(110, 2)
    made.extend(120, 2)
    made.cut(4)
    assert made.undurable_from == 2


def test_a_cut_behind_a_break_keeps_it_undurable() -> None:
    made = line()
    made.extend(100, 4)
    made.extend(110, 2)
    made.cut(5)
    assert made.undurable_from == 4
    made.extend(111, 1)
    assert made.source_of(5) == 111


def test_a_durable_position_says_nothing_of_a_run_that_replaced_one_of_its_own() -> None:
    made = line()
    made.extend(100, 4)
    made.extend(110, 2)
    written = made.version
    made.cut(4)
    made.extend(112, 2)
    made.on_durable(written)
    assert made.holds_back(5)
    assert made.source_of(4) == 112


def test_behind_an_atomic_position_a_cut_holds_nothing_back() -> None:
    atomic = SequenceMap(msgspec.structs.replace(position(100, 50), atomic=True))
    atomic.on_durable(1)
    atomic.extend(100, 2)
    atomic.extend(105, 2)
    atomic.cut(2)
    atomic.extend(102, 2)
    assert not atomic.holds_back(4)


def test_behind_an_atomic_position_a_break_holds_nothing_back() -> None:
    atomic = SequenceMap(msgspec.structs.replace(position(100, 50), atomic=True))
    atomic.extend(100, 2)
    assert atomic.holds_back(1), "the first position comes before all records"
    atomic.extend(105, 2)
    atomic.on_durable(1)
    assert not atomic.holds_back(4)
    atomic.extend(110, 2)
    assert not atomic.holds_back(6)
    assert atomic.source_of(5) == 111


# --- expected runs -----------------------------------------------------------------------------------------------


def steady(made: SequenceMap, times: int) -> None:
    """Add transactions of four records, each followed by a marker."""
    source = made.source_of(made.sequence)
    assert source is not None
    for _ in range(times):
        made.extend(source, 4)
        made.skip(source + 5)
        source += 5


def expecting() -> SequenceMap:
    """A line at sequence 16 after four transactions, with more of them expected and durable."""
    made = line()
    steady(made, 4)
    assert made.look_ahead() == Ahead(4, 5, 16)
    made.on_durable(made.version)
    return made


def test_the_run_after_skipped_offsets_is_named_before_its_records_come() -> None:
    made = line()
    made.extend(100, 2)
    made.skip(105)
    assert made.undurable_from is None
    assert made.look_ahead() is None
    assert made.new_runs() == ((2, 105),)
    made.on_durable(made.version)
    made.extend(105, 3)
    assert not made.holds_back(5)


def test_offsets_that_are_skipped_later_make_the_named_run_another_one() -> None:
    made = line()
    made.extend(100, 2)
    made.skip(105)
    made.look_ahead()
    made.on_durable(made.version)
    made.skip(107)
    made.extend(107, 1)
    assert made.holds_back(3)
    assert made.new_runs() == ((2, 107),)


def test_runs_of_one_shape_are_expected_to_go_on() -> None:
    made = expecting()
    version = made.version
    steady(made, 16)
    assert (made.undurable_from, made.version) == (None, version)
    assert made.look_ahead() == Ahead(4, 5, 80)
    assert made.version == version + 1


def test_expected_runs_count_when_they_are_durable() -> None:
    made = line()
    steady(made, 4)
    made.look_ahead()
    version = made.version
    steady(made, 2)
    assert made.holds_back(18)
    made.on_durable(version)
    assert not made.holds_back(made.sequence)


def test_another_hole_than_the_expected_one_is_held_back() -> None:
    made = expecting()
    made.extend(120, 4)
    made.extend(126, 4)
    assert not made.holds_back(20)
    assert made.holds_back(21)
    assert made.look_ahead() is None
    assert made.new_runs() == ((20, 126),)


@pytest.mark.parametrize("batches", [(4, 2), (6,), (3, 3)])
def test_records_where_a_hole_was_expected_are_held_back(batches: tuple[int, ...]) -> None:
    made = expecting()
    source = 120
    for count in batches:
        made.extend(source, count)
        source += count
    assert not made.holds_back(20)
    assert made.holds_back(21)
    assert made.new_runs() == ((20, 124),)
    assert list(made.stretches(16, 6)) == [(120, 4), (124, 2)]


def test_a_cut_through_expected_runs_expects_no_more() -> None:
    made = expecting()
    steady(made, 3)
    made.cut(18)
    assert made.look_ahead() is None
    assert made.new_runs() == ((18, 122),)
    made.extend(122, 2)
    assert made.holds_back(19)


def test_a_cut_before_an_expected_run_still_expects_it() -> None:
    made = expecting()
    made.extend(120, 3)
    made.cut(17)
    made.extend(121, 3)
    made.extend(125, 4)
    assert not made.holds_back(made.sequence)


def test_a_line_that_expects_nothing_more_holds_back_what_follows() -> None:
    made = expecting()
    made.extend(120, 2)
    made.expect_nothing()
    assert not made.holds_back(18)
    assert made.holds_back(19)
    assert made.look_ahead() is None
    assert made.new_runs() == ((18, 122),)
    made.on_durable(made.version)
    made.extend(122, 2)
    assert not made.holds_back(20)


def test_of_many_acknowledged_runs_most_are_forgotten() -> None:
    made = expecting()
    steady(made, 16)
    made.look_ahead()
    steady(made, 60)
    before = made.pending
    made.forget(made.sequence - 2)
    assert before > 64
    assert made.pending == 1


def test_behind_an_atomic_position_nothing_is_expected() -> None:
    atomic = SequenceMap(msgspec.structs.replace(position(), atomic=True))
    atomic.on_durable(1)
    steady(atomic, 6)
    assert atomic.look_ahead() is None
