"""Records that count as lost, duplicated and reordered."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.recovery.compare import Difference, compare, compare_all
from bench.recovery.records import RECORD_BYTES, decode_record, encode_record


def differ(source: list[int], copy: list[int]) -> Difference:
    return compare(np.array(source, dtype=np.int64), np.array(copy, dtype=np.int64))


@pytest.mark.parametrize(
    ("source", "copy", "found"),
    [
        ([0, 1, 2], [0, 1, 2], Difference(records=3)),
        ([0, 1, 2, 3], [0, 3], Difference(records=4, lost=2)),
        ([0, 1, 2], [0, 1, 1, 0, 2], Difference(records=3, duplicated=2)),
        ([0, 1, 2, 3], [0, 2, 1, 3], Difference(records=4, reordered=1)),
        ([0, 1, 2, 3], [3, 0, 1, 2], Difference(records=4, reordered=3)),
        ([5, 6], [3, 4, 5, 6], Difference(records=2, foreign=2)),
        ([2, 0, 1], [2, 0, 1], Difference(records=3)),  # the order of the source counts, not that of the numbers
        ([], [], Difference()),
        ([0], [], Difference(records=1, lost=1)),
        ([], [7, 7], Difference(duplicated=1, foreign=1)),
    ],
)
def test_every_kind_of_difference_is_counted(source: list[int], copy: list[int], found: Difference) -> None:
    assert differ(source, copy) == found


@given(st.permutations(range(12)), st.lists(st.integers(0, 11)))
def test_a_copy_is_whole_exactly_when_it_is_the_source(source: list[int], copy: list[int]) -> None:
    assert differ(source, copy).is_whole == (copy == source)
    assert differ(source, source).is_whole


def test_partitions_add_up_and_one_that_is_missing_is_lost() -> None:
    one, two = np.array([0, 1]), np.array([0, 1, 2])
    assert compare_all({0: one, 1: two}, {0: one[::-1]}) == Difference(records=5, lost=3, reordered=1)


def test_a_record_names_its_partition_and_number() -> None:
    value = encode_record(39, 2**40)
    assert len(value) == RECORD_BYTES
    assert decode_record(value) == (39, 2**40)
