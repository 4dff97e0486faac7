"""The batch header compared with written-down bytes, and its derived values."""

import pytest

from engine.wire.batch import HEADER_BYTES, BatchHeader, read_header
from tests.unit.engine.wire.batches import batch, records

# offset 7, length 56, leader epoch 9, lz4 + transactional + delete horizon, delta 4, producer 77/5/2^31-3, 3 records
GOLDEN = bytes.fromhex(
    "0000000000000007" "00000038" "00000009" "02" "deadbeef" "0053" "00000004" "0000018bcfe56800" "0000018bcfe5681c"
    "000000000000004d" "0005" "7ffffffd" "00000003" "00000000000000"
)  # fmt: skip


def _header(**changed: int) -> BatchHeader:
    values = dict.fromkeys(BatchHeader.__struct_fields__, 0) | changed
    return BatchHeader(**values)


def test_every_field_of_a_written_down_header() -> None:
    header = read_header(bytearray(b"??" + GOLDEN), 2)
    assert header == BatchHeader(
        7, 56, 9, 2, 0xDEADBEEF, 0x53, 4, 1_700_000_000_000, 1_700_000_000_028, 77, 5, 2**31 - 3, 3
    )
    assert (header.size_bytes, header.last_offset, header.next_offset, header.codec) == (68, 11, 12, 3)
    assert (header.is_transactional, header.has_delete_horizon) == (True, True)
    assert (header.is_control, header.is_log_append_time) == (False, False)


def test_reads_from_a_memoryview_as_from_a_bytearray() -> None:
    built = batch(records())
    assert read_header(memoryview(built), 0) == read_header(built, 0)
    assert HEADER_BYTES == 61


@pytest.mark.parametrize(
    ("attributes", "name"),
    [(0x08, "is_log_append_time"), (0x10, "is_transactional"), (0x20, "is_control"), (0x40, "has_delete_horizon")],
)
def test_one_attribute_bit_is_one_property(attributes: int, name: str) -> None:
    assert getattr(_header(attributes=attributes), name)
    assert not getattr(_header(attributes=~attributes), name)


@pytest.mark.parametrize(
    ("base", "delta", "last"),
    [(0, 0, 0), (5, 4, 9), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 3, 4, 1), (-1, 9, -1)],
)
def test_last_sequence_wraps_like_increment_sequence(base: int, delta: int, last: int) -> None:
    assert _header(base_sequence=base, last_offset_delta=delta).last_sequence == last
