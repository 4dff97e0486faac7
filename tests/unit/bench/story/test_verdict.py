"""The verdict of round trips: each thing that must not be is named."""

import msgspec
import numpy as np
import pytest

from bench.story.judging import LogFault, ReadFault
from bench.story.reports import FailbackCounts
from bench.story.scene import Stay
from bench.story.trip import Delta, Trip
from bench.story.trips import again_by_stay, kinds, verdict_of

COUNTS = FailbackCounts(diverged=4, new=100, bytes_to_source=1000, bytes_of_full_copy=9000, group_repeats=4)
DELTA = Delta(diverged=4, records=100, difference_bytes=1000, written_bytes=1010, metadata_bytes=50, counts=COUNTS)
SWITCHED = Trip(kind="switchover", seconds={}, away_s={})
LOST = Trip(kind="failover", seconds={}, away_s={}, group_called_equal=False, delta=DELTA)
WHOLE, READ = LogFault(records=9), ReadFault(records=9)


def faults(
    a: LogFault = WHOLE,
    b: LogFault = WHOLE,
    reading: ReadFault = READ,
    again: tuple[int, ...] = (0, 0, 0, 0, 0),
    lost: Trip = LOST,
) -> str:
    return " | ".join(verdict_of(a, b, reading, again, [SWITCHED, lost]).faults)


def test_nothing_is_wrong() -> None:
    assert faults() == ""
    assert faults(b=LogFault(records=9, late=4), again=(0, 0, 0, 4, 0)) == ""
    assert faults(again=(0, 0, 0, 40, 0)) == "", "the failover has said that the group is not equal"


@pytest.mark.parametrize("kind", ["lost", "doubled", "reordered", "foreign"])
def test_a_log_that_is_not_whole(kind: str) -> None:
    bad = msgspec.structs.replace(WHOLE, **{kind: 1})
    assert faults(a=bad) == "the log of A is not whole"
    assert faults(b=bad) == "the log of B is not whole"


@pytest.mark.parametrize("kind", ["missed", "reordered", "foreign"])
def test_a_reading_that_is_not_whole(kind: str) -> None:
    assert "the group missed" in faults(reading=msgspec.structs.replace(READ, **{kind: 1}))


def test_records_behind_later_ones() -> None:
    assert faults(a=LogFault(records=9, late=1)) == "1 records of A are behind later ones"
    assert faults(b=LogFault(records=9, late=5)) == "5 records of B are behind later ones, reported 4"


@pytest.mark.parametrize(
    ("again", "where"),
    [
        ((1, 0, 0, 0, 0), "before the first trip"),
        ((0, 1, 0, 0, 0), "trip 1: the group read 1 records again on B"),
        ((0, 0, 1, 0, 0), "trip 1: the group read 1 records again on A"),
        ((0, 0, 0, 0, 1), "trip 2: the group read 1 records again on A"),
    ],
)
def test_readings_again_that_nothing_reports(again: tuple[int, ...], where: str) -> None:
    assert where in faults(again=again)


def test_a_group_that_a_failover_called_equal_reads_only_again_what_only_a_had() -> None:
    lost = msgspec.structs.replace(LOST, group_called_equal=True)
    assert faults(again=(0, 0, 0, 4, 0), lost=lost) == ""
    assert "trip 2: the group read 5 records again on B, reported 4" in faults(again=(0, 0, 0, 5, 0), lost=lost)


def test_a_failback_that_writes_more_than_the_difference_or_counts_wrongly() -> None:
    more = msgspec.structs.replace(LOST, delta=msgspec.structs.replace(DELTA, written_bytes=1011))
    assert faults(lost=more) == "trip 2: 1011 bytes were written to A, the difference is 1000"
    wrong = msgspec.structs.replace(LOST, delta=msgspec.structs.replace(DELTA, diverged=5))
    assert faults(lost=wrong) == "trip 2: the report says that only A had 4 records, the logs say 5"


def test_losses_of_a_are_spread_over_the_trips() -> None:
    assert kinds(10, 3) == [False, False, False, True, False, False, True, False, False, True]
    assert kinds(2, 1) == [False, True]
    assert kinds(3, 0) == [False] * 3
    assert kinds(2, 2) == [True] * 2


def test_each_stay_is_compared_with_all_before_it() -> None:
    stays = [Stay(cluster="A", numbers={0: np.array(one)}) for one in ([0, 1], [1, 2, 2], [0])]
    assert again_by_stay(stays) == (0, 2, 1)
