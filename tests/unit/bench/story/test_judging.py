"""Logs and readings in which records are lost, doubled, reordered, late, foreign, or read again."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.story.judging import (
    STRIDE,
    LogFault,
    ReadFault,
    Stint,
    alone,
    is_delta,
    joined,
    judge_log,
    judge_reading,
    read_again,
)

S = STRIDE
BOTH = [
    Stint(first=0, acknowledged={0: 3}, offered={0: 3}),
    Stint(first=S, acknowledged={0: S + 2}, offered={0: S + 2}),
]
DIED = [Stint(first=0, acknowledged={0: 2}, offered={0: 4}), BOTH[1]]


def log(*numbers: int) -> dict[int, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    return {0: np.array(numbers, dtype=np.int64)}


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        ((0, 1, 2, S, S + 1), LogFault(records=5)),
        ((0, 2, S, S + 1), LogFault(records=5, lost=1)),
        ((), LogFault(records=5, lost=5)),
        ((0, 1, 1, 2, S, S + 1, 0), LogFault(records=5, doubled=2)),
        ((1, 0, 2, S, S + 1), LogFault(records=5, reordered=1)),
        ((0, 1, S, 2, S + 1), LogFault(records=5, late=1)),
        ((0, 1, S, S + 1, 2), LogFault(records=5, late=1)),
        ((0, S + 1, 2, S, 1), LogFault(records=5, reordered=2, late=2)),
        ((0, 1, 2, 7, S, S + 1, S + 9), LogFault(records=5, foreign=2)),
    ],
)
def test_every_fault_of_a_log_is_counted(numbers: Sequence[int], found: LogFault) -> None:
    assert judge_log(log(*numbers), BOTH) == found
    assert found.is_whole == (not (found.lost or found.doubled or found.reordered or found.foreign))


def test_what_a_dead_producer_was_not_told_of_may_be_there_or_not() -> None:
    for numbers in ((0, 1), (0, 1, 2), (0, 1, 2, 3)):
        assert judge_log(log(*numbers, S, S + 1), DIED) == LogFault(records=4)
    assert judge_log(log(0, 1, 2, 4, S, S + 1), DIED).foreign == 1
    assert judge_log(log(0, S, S + 1), DIED).lost == 1


def test_a_partition_that_a_log_lacks_is_lost() -> None:
    two = [Stint(first=0, acknowledged={0: 1, 1: 2}, offered={0: 1, 1: 2})]
    assert judge_log(log(0), two) == LogFault(records=3, lost=2)
    assert judge_reading(log(0), two) == ReadFault(records=3, missed=2)


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        ((0, 1, 2, S, S + 1), ReadFault(records=5)),
        ((0, 1, S, S + 1), ReadFault(records=5, missed=1)),
        ((0, 1, 2, 1, 2, S, S + 1), ReadFault(records=5, again=2)),
        ((0, 2, 1, S, S + 1), ReadFault(records=5, reordered=1)),
        ((0, 1, S, 2, S + 1), ReadFault(records=5)),
        ((0, 1, 2, S, S + 1, 5), ReadFault(records=5, foreign=1)),
    ],
)
def test_every_fault_of_a_reading_is_counted(numbers: Sequence[int], found: ReadFault) -> None:
    assert judge_reading(log(*numbers), BOTH) == found
    assert found.is_whole == (not (found.missed or found.reordered or found.foreign))


@given(st.permutations([0, 1, 2, S, S + 1]), st.lists(st.sampled_from([0, 1, 2, S, S + 1])))
def test_only_the_log_itself_is_whole_and_in_order(order: list[int], more: list[int]) -> None:
    found = judge_log(log(*order, *more), BOTH)
    is_right = found.is_whole and not found.late
    assert is_right == ([*order, *more] == [0, 1, 2, S, S + 1])
    assert found.doubled == len(more)
    assert judge_reading(log(*order, *more), BOTH).again == len(more)


@given(st.sets(st.integers(0, 4)))
def test_every_lost_record_is_counted(gone: set[int]) -> None:
    left = [number for at, number in enumerate([0, 1, 2, S, S + 1]) if at not in gone]
    assert judge_log(log(*left), BOTH).lost == judge_reading(log(*left), BOTH).missed == len(gone)


def test_readings_again_are_counted_by_stay() -> None:
    first, second = log(0, 1, 2), {0: np.array([2, 3, 3]), 1: np.array([0])}
    assert read_again(first, second) == 2
    assert read_again(second, first) == 1
    assert read_again({}, first) == 0
    assert [list(one) for one in joined([first, second]).values()] == [[0, 1, 2, 2, 3, 3], [0]]
    assert joined([]) == {}


def test_what_one_log_has_alone() -> None:
    found = alone({0: np.array([0, 1, 2]), 1: np.array([5])}, {0: np.array([1]), 1: np.array([5, 6])})
    assert {at: list(numbers) for at, numbers in found.items()} == {0: [0, 2]}


@pytest.mark.parametrize(("written", "holds"), [(0, True), (1000, True), (1010, True), (1011, False)])
def test_a_failback_may_write_one_percent_more(written: int, holds: bool) -> None:
    assert is_delta(written, 1000) is holds
