"""How large ranges are, and where they end."""

import pytest

from engine.flow.ranges.batch_sizes import FEW_BATCHES, NARROW_BATCHES, WHOLE, Aim, BatchSizes
from engine.wire.extent import Extent

KIB, MIB = 1024, 1 << 20
MOST = 8 * MIB


def sizes(batch_bytes: float, *, alike: int = 0, offsets: int = 60) -> BatchSizes:
    return BatchSizes(
        batch_bytes=batch_bytes, bytes_per_offset=batch_bytes / offsets, alike=alike, spread_bytes=10, joint=0
    )


@pytest.mark.parametrize(
    ("batch_bytes", "aim", "expected"),
    [
        (56 * KIB, WHOLE, 24 * 56 * KIB),
        (56 * KIB, Aim(768 * KIB, FEW_BATCHES), 768 * KIB),
        (56 * KIB, Aim(6 * MIB, FEW_BATCHES), 24 * 56 * KIB),
        (200 * KIB, Aim(768 * KIB, FEW_BATCHES), 8 * 200 * KIB),
        (200 * KIB, Aim(768 * KIB, NARROW_BATCHES), 768 * KIB),
        (1 * KIB, Aim(0, NARROW_BATCHES), 512 * KIB),
        (2 * MIB, WHOLE, MOST),
        (3 * MIB, WHOLE, 0),
    ],
)
def test_a_range_is_as_large_as_is_useful_and_possible(batch_bytes: float, aim: Aim, expected: int) -> None:
    assert sizes(batch_bytes).range_bytes(MOST, aim) == expected


@pytest.mark.parametrize(("batch_bytes", "expected"), [(1 * KIB, 512 * KIB), (1 * MIB, 1 * MIB), (16 * MIB, MOST)])
def test_batches_that_are_alike_need_no_large_ranges(batch_bytes: float, expected: int) -> None:
    assert sizes(batch_bytes, alike=60).range_bytes(MOST, Aim(6 * MIB, FEW_BATCHES)) == expected


def test_a_range_of_batches_that_are_alike_ends_between_two_of_them() -> None:
    stop, size = sizes(100 * KIB, alike=60).cut(600, MOST, WHOLE)
    assert (stop, size) == (900, 5 * 100 * KIB + 10)


def test_a_range_of_other_batches_asks_for_a_part_of_a_batch_more() -> None:
    stop, size = sizes(60 * KIB).cut(600, MOST, WHOLE)
    assert stop == 600 + 24 * 60
    assert 24.5 * 60 * KIB < size < 25 * 60 * KIB


def test_one_batch_does_not_show_that_others_are_alike() -> None:
    one = Extent(1000, 0, 60, 1, 60, 0, -1)
    two = Extent(2000, 0, 120, 2, 60, 0, -1)
    assert (BatchSizes.of(one, 0).alike, BatchSizes.of(two, 0).alike) == (0, 60)
