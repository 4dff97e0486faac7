"""A checkpoint is right if the records at both offsets are the same, or there are none."""

import random

import numpy as np
import pytest

from bench.recovery.checkpoints import Pair, Told, Truth, judge_told
from bench.recovery.movers import partitions_of, somewhere

SOURCE, AT_SOURCE = np.array([0, 1, 2, 3]), np.array([0, 1, 5, 6])
TARGET, AT_TARGET = np.array([0, 1, 2, 3]), np.array([10, 11, 12, 20])


def truth() -> Truth:
    return Truth(SOURCE, AT_SOURCE, TARGET, AT_TARGET)


@pytest.mark.parametrize(
    ("source", "target", "right"),
    [
        (0, 10, True),
        (0, 3, True),  # nothing of the topic lies before the first record
        (1, 11, True),
        (2, 12, True),  # in a hole of the source: the first record behind it
        (5, 12, True),
        (6, 13, True),  # in a hole of the target, which a marker may fill
        (6, 20, True),
        (7, 21, True),  # the end of both
        (99, 50, True),
        (1, 10, False),  # one is read again
        (1, 12, False),  # one is skipped
        (6, 21, False),
        (7, 20, False),
    ],
)
def test_both_offsets_mean_the_same_record_or_the_end(source: int, target: int, right: bool) -> None:
    assert truth().is_right(source, target) is right


def test_records_that_the_source_lost_are_no_places_on_the_target() -> None:
    found = Truth(SOURCE[:2], AT_SOURCE[:2], TARGET, AT_TARGET)
    assert found.is_right(5, 12)
    assert found.is_right(5, 50)


def judged(told: list[Pair], last: dict[tuple[str, int], int], *, target_lost: bool = False) -> Told:
    return judge_told(told, last, {0: truth()}, target_lost=target_lost)


def test_every_answer_counts_and_every_group_must_have_one() -> None:
    told = [Pair("g", 0, 0, 10), Pair("g", 0, 1, 12), Pair("h", 0, 7, 21)]
    found = judged(told, {("g", 0): 5, ("h", 0): 7, ("i", 0): 0})
    assert (found.count, found.wrong, found.withdrawn, found.missing) == (3, 1, 0, 1)
    assert found.examples[1] == "nothing right of ('i', 0) at 0"
    assert "target=12" in found.examples[0]


def test_an_answer_from_before_the_group_moved_on_is_missing_not_wrong() -> None:
    found = judged([Pair("g", 0, 0, 10)], {("g", 0): 6})
    assert (found.wrong, found.missing) == (0, 1)


def test_of_a_target_that_lost_records_only_the_last_answers_must_be_right() -> None:
    told = [Pair("g", 0, 1, 50), Pair("g", 0, 1, 11), Pair("h", 0, 1, 11), Pair("h", 0, 1, 50)]
    found = judged(told, {("g", 0): 1}, target_lost=True)
    assert (found.count, found.wrong, found.withdrawn, found.missing) == (4, 1, 1, 0)
    assert judged(told, {("g", 0): 1}).wrong == 2


def test_every_partition_has_a_group_and_offsets_lie_between_the_ends() -> None:
    assert {at for number in range(10) for at in partitions_of(number, 40)} == set(range(40))
    assert partitions_of(9, 3) == [0, 1, 2]
    dice = random.Random(1)
    found = [somewhere(2000, 1000, dice) for _ in range(1000)]
    assert min(found) >= 0
    assert found.count(2000) > 100
    assert sum(990 <= one <= 1000 for one in found) > 100
    assert len(set(found)) > 300
    assert {somewhere(0, 5, dice) for _ in range(50)} == {0}
    assert {somewhere(9, 0, dice) for _ in range(50)} == {0, 9}
