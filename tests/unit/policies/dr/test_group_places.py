"""Where groups go in a failback: by choice and by log, on small logs that a group has read in part."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.dr.failback import FailbackChoice, plan_failback
from policies.dr.group_places import FailbackSide, GroupProgress, PlaceReason, group_place
from policies.dr.separation import LogPart, Separation
from tests.unit.policies.dr.separated import Entry, Logs, changed, planned, separation

KEEP, APPEND, DISCARD = FailbackChoice
SOURCE, TARGET = FailbackSide
P, D, N, END = LogPart
AHEAD = 10
"""The copy lies so many offsets further, so that no test takes one side's offset for the other's."""
EXACT, INSIDE, REPEATS, DISCARDED, _EXPIRED, NOT_MAPPED = PlaceReason


def progress(found: Separation, source: int, target: int) -> GroupProgress:
    """Return the progress of a group whose target offset has an exact source offset."""
    mapped = min(target, found.target_next) - AHEAD if target >= 0 else -1
    return GroupProgress(source=source, target=target, mapped=mapped)


def told(choice: FailbackChoice, side: FailbackSide, source: int, target: int) -> tuple[LogPart, int, int, PlaceReason]:
    """Place a group in logs with 5 shared, 4 diverged and 3 new records; `target`: records read there."""
    found = separation(5, 4, 3, ahead=AHEAD)
    where = group_place(
        found, planned(found, choice), progress(found, source, target + AHEAD if target >= 0 else -1), side
    )
    return where.part, where.into, where.repeats, where.reason


@pytest.mark.parametrize(
    ("choice", "side", "read", "place"),
    [
        # before D on the source, wherever it is in P on the target: the exact record
        (KEEP, SOURCE, (2, 4), (P, 4, 0, EXACT)),
        (KEEP, SOURCE, (4, 2), (P, 4, 0, EXACT)),
        (DISCARD, SOURCE, (-1, 3), (P, 3, 0, EXACT)),
        (APPEND, TARGET, (3, -1), (P, 3, 0, EXACT)),
        # at the end of P: D's start, which is exact
        (KEEP, SOURCE, (5, 5), (D, 0, 0, EXACT)),
        (KEEP, TARGET, (5, 5), (N, 0, 0, EXACT)),
        # inside D, and nothing read of N: its own commit on the source stays, and is not called equal
        (KEEP, SOURCE, (7, 5), (D, 2, 0, INSIDE)),
        (KEEP, TARGET, (7, 5), (N, 0, 2, REPEATS)),
        (APPEND, SOURCE, (7, 5), (N, 0, 2, REPEATS)),
        (DISCARD, SOURCE, (7, 5), (N, 0, 0, DISCARDED)),
        # inside N, and nothing read of D: the source has D first, so N is read again there
        (KEEP, SOURCE, (5, 7), (D, 0, 2, REPEATS)),
        (KEEP, SOURCE, (1, 7), (D, 0, 2, REPEATS)),
        (KEEP, TARGET, (5, 7), (N, 2, 0, EXACT)),
        (APPEND, SOURCE, (5, 7), (N, 2, 0, EXACT)),
        (DISCARD, SOURCE, (5, 7), (N, 2, 0, EXACT)),
        # inside both
        (KEEP, SOURCE, (7, 7), (D, 2, 2, REPEATS)),
        (APPEND, TARGET, (7, 7), (N, 2, 2, REPEATS)),
        (DISCARD, TARGET, (7, 7), (N, 2, 0, DISCARDED)),
        # behind one, inside the other
        (KEEP, SOURCE, (9, 7), (N, 2, 0, EXACT)),
        (APPEND, SOURCE, (7, 8), (D, 2, 0, INSIDE)),
        # behind both
        (KEEP, SOURCE, (9, 8), (END, 0, 0, EXACT)),
        (APPEND, TARGET, (9, 8), (END, 0, 0, EXACT)),
        (DISCARD, SOURCE, (9, 8), (END, 0, 0, DISCARDED)),
    ],
)
def test_a_group_goes_to_the_first_record_that_it_has_not_read(
    choice: FailbackChoice, side: FailbackSide, read: tuple[int, int], place: tuple[LogPart, int, int, PlaceReason]
) -> None:
    assert told(choice, side, *read) == place


@given(
    st.tuples(*[st.integers(0, 5)] * 3),
    st.sampled_from(list(FailbackChoice)),
    st.sampled_from(list(FailbackSide)),
    st.tuples(st.integers(-1, 10), st.integers(-1, 10)),
)
def test_nothing_is_skipped_and_repeats_are_counted(
    sizes: tuple[int, int, int], choice: FailbackChoice, side: FailbackSide, read: tuple[int, int]
) -> None:
    """The records before the place are read; those behind it that were read are counted; equal means neither."""
    found = separation(*sizes, ahead=AHEAD)
    plan = planned(found, choice)
    firsts = (0, 100, 200)
    logs = Logs(*([Entry(first + at) for at in range(size)] for first, size in zip(firsts, sizes, strict=True)))
    group = progress(
        found, min(read[0], found.source.end), min(read[1] + AHEAD, found.target.end) if read[1] >= 0 else -1
    )
    done = logs.read_by(group, found)
    place = group_place(found, plan, group, side)
    log, at = logs.after(plan)[side.value], logs.offset_of(place, plan, side)
    assert {one.number for one in log[:at]} <= done
    assert at == len(log) or log[at].number not in done
    assert sum(one.number in done for one in log[at:]) == place.repeats
    lost = done - {one.number for one in log}
    assert place.is_equal == (not place.repeats and not lost and not (place.part is D and place.into))


def test_a_group_inside_late_keys_reads_them_again() -> None:
    """Only some keys of D are appended to the target, so a place inside D is none inside what is appended."""
    found = separation(5, 4, 3, ahead=AHEAD, is_compacted=True)
    plan = planned(found, KEEP)
    assert plan.compares_keys
    where = group_place(found, plan, progress(found, 7, 8 + AHEAD), TARGET)
    assert (where.part, where.into, where.repeats, where.reason) == (D, 0, 2, REPEATS)
    where = group_place(found, plan, progress(found, 7, 6 + AHEAD), TARGET)
    assert (where.part, where.into, where.repeats, where.reason) == (N, 1, 2, REPEATS)
    where = group_place(found, plan, progress(found, 9, 8 + AHEAD), TARGET)
    assert (where.part, where.reason) == (END, EXACT)
    where = group_place(found, plan, progress(found, 7, 5 + AHEAD), SOURCE)
    assert (where.part, where.into, where.reason) == (D, 2, INSIDE)


def test_an_offset_that_the_map_does_not_know_is_not_called_equal() -> None:
    found = separation(5, 4, 3, ahead=AHEAD)
    plan = planned(found, KEEP)
    where = group_place(found, plan, GroupProgress(source=2, target=3 + AHEAD), SOURCE)
    assert (where.part, where.into, where.reason) == (P, 2, NOT_MAPPED)
    assert not where.is_equal


def test_a_commit_from_before_a_loss_counts_only_up_to_the_loss() -> None:
    """A source that lost records has others there now: what a group has read of them is not what the target has."""
    found = separation(5, 4, 3, ahead=AHEAD, epoch_end=3)
    plan = plan_failback(found, DISCARD)
    assert plan.refused == ()
    where = group_place(found, plan, GroupProgress(source=5, target=2 + AHEAD, mapped=2), SOURCE)
    assert (where.part, where.into, where.reason) == (P, 3, DISCARDED)
    where = group_place(found, plan, GroupProgress(source=2, target=4 + AHEAD, mapped=4), SOURCE)
    assert (where.part, where.into, where.reason) == (P, 4, EXACT)


def test_a_part_ends_with_its_last_record() -> None:
    """Markers behind the last record are not unread: else a group that has read both parts would read one again."""
    found = changed(separation(5, 4, 3, ahead=AHEAD), diverged_end=8, new_end=7 + AHEAD)
    for choice in (KEEP, APPEND):
        for side in FailbackSide:
            where = group_place(found, planned(found, choice), progress(found, 8, 7 + AHEAD), side)
            assert (where.part, where.repeats, where.reason) == (END, 0, EXACT)
