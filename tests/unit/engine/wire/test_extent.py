"""How far the whole batches of fetched bytes reach."""

from hypothesis import given
from hypothesis import strategies as st

from engine.wire.extent import Extent, extent, first_behind
from tests.fakes.source_log import SourceLog


def log_of(*counts: int) -> SourceLog:
    log = SourceLog()
    for count in counts:
        log.data(count)
    return log


def measured(log: SourceLog, below: int = 1 << 40, *, cut: int = 0) -> Extent | None:
    data = log.fetch(0, len(log.batches))[0]
    return extent(memoryview(data), 0, len(data) - cut, below)


def test_whole_batches_are_measured() -> None:
    found = measured(log_of(2, 2, 2))
    assert found is not None
    assert (found.first_offset, found.next_offset, found.batches, found.alike, found.beyond) == (0, 6, 3, 2, -1)


def test_batches_that_differ_are_not_alike() -> None:
    found = measured(log_of(2, 3, 2))
    assert found is not None
    assert (found.next_offset, found.alike) == (7, 0)
    assert found.spread_bytes > 0


def test_batches_with_offsets_missing_between_them_are_not_alike() -> None:
    log = SourceLog()
    for _ in range(3):
        log.data(2)
        log.vanish(5)
    found = measured(log)
    assert found is not None
    assert (found.next_offset, found.alike) == (16, 0)


def test_a_truncated_batch_does_not_count() -> None:
    found = measured(log_of(2, 2, 2), cut=1)
    assert found is not None
    assert (found.next_offset, found.batches) == (4, 2)
    assert measured(log_of(2), cut=1) == Extent(0, -1, -1, 0, 0, 0, -1)


def test_batches_at_or_above_the_offset_are_left_out() -> None:
    found = measured(log_of(2, 2, 2), 4)
    assert found is not None
    assert (found.next_offset, found.batches, found.beyond) == (4, 2, 4)
    spanning = measured(log_of(2, 2, 2), 3)
    assert spanning is not None
    assert (spanning.next_offset, spanning.beyond) == (4, 4)


def test_a_hole_up_to_the_offset_is_seen() -> None:
    log = SourceLog()
    log.vanish(10)
    log.data(2)
    assert measured(log, 5) == Extent(0, -1, -1, 0, 0, 0, 10)


def test_what_is_no_batch_of_format_2_is_left_to_others() -> None:
    data = bytearray(log_of(2, 2).fetch(0, 2)[0])
    for at, value in ((16, 1), (11, 1), (23, 0x80)):
        bad = bytearray(data)
        bad[at] = value
        if at == 11:
            bad[8:12] = b"\0\0\0\1"
        assert extent(memoryview(bad), 0, len(bad), 1 << 40) is None
    twice = data[: len(data) // 2] * 2
    assert extent(memoryview(twice), 0, len(twice), 1 << 40) is None, "offsets go back"


@given(st.binary(max_size=400), st.integers(0, 50))
def test_any_bytes_are_measured_without_an_error(data: bytes, below: int) -> None:
    found = extent(memoryview(data), 0, len(data), below)
    assert found is None or 0 <= found.end <= len(data)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(0, 30))
def test_the_first_batch_that_ends_behind_an_offset_is_found(counts: list[int], offset: int) -> None:
    log = log_of(*counts)
    data = memoryview(log.fetch(0, len(log.batches))[0])
    at = first_behind(data, 0, len(data), offset)
    expected = next((batch.base for batch in log.batches if batch.last >= offset), None)
    assert (at == len(data)) is (expected is None)
    if expected is not None:
        found = extent(data, at, len(data), 1 << 40)
        assert found is not None
        assert found.first_offset == expected
