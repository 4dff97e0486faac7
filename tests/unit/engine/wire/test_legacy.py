"""Record formats 0 and 1, against aiokafka's writer and reader."""

import struct
import zlib

import pytest

from engine.base.errors import MalformedBatch
from engine.wire.codecs import compress
from engine.wire.records import Record, decode_records
from tests.unit.engine.wire.batches import PARTITION, TOPIC, decoded, legacy, only, read_by_aiokafka, wrapper

CONTENT = [
    Record(40, 1000, b"k", b"v" * 90),
    Record(41, 1001, None, b"v" * 90),
    Record(42, 999, b"", b""),
    Record(44, 1003, b"tombstone", None),
]
TIMELESS = [Record(record.offset, -1, record.key, record.value) for record in CONTENT]


def _entry(record: Record, magic: int = 1) -> bytes:
    return bytes(legacy([record], magic))


@pytest.mark.parametrize("record", CONTENT)
def test_single_entries(record: Record) -> None:
    assert decoded(legacy([record], 1)) == [record]
    assert decoded(legacy([record], 0)) == [Record(record.offset, -1, record.key, record.value)]


@pytest.mark.parametrize("codec", [1, 2, 3])
def test_format_1_wrappers_have_relative_offsets_with_gaps(codec: int) -> None:
    built = legacy(CONTENT, 1, codec)
    header = only(built)
    assert (header.last_offset, header.next_offset, header.codec, header.magic) == (44, 45, codec, 1)
    assert decoded(built) == CONTENT == read_by_aiokafka(built)


@pytest.mark.parametrize("codec", [1, 2])
def test_format_0_wrappers_have_absolute_offsets_and_no_timestamps(codec: int) -> None:
    assert decoded(legacy(CONTENT, 0, codec)) == TIMELESS


def test_lz4_with_the_wrong_header_checksum_of_old_clients() -> None:
    inner = b"".join(_entry(record, 0) for record in CONTENT)
    frame = bytearray(compress(3, inner))
    frame[6] ^= 0xFF
    assert decoded(wrapper(bytes(frame), 0, 3, 44)) == TIMELESS


def test_log_append_time_of_a_wrapper_rules_its_records() -> None:
    inner = b"".join(_entry(Record(index, 5 + index, b"k", b"v")) for index in range(3))
    found = decoded(wrapper(compress(1, inner), 1, 0x09, 9, timestamp=777))
    assert [(record.offset, record.timestamp) for record in found] == [(7, 777), (8, 777), (9, 777)]


def test_a_wrapper_at_offset_0_has_absolute_offsets_inside() -> None:
    inner = b"".join(_entry(Record(index, 5, b"k", b"v")) for index in range(3))
    assert [record.offset for record in decoded(wrapper(compress(1, inner), 1, 1, 0))] == [0, 1, 2]


def _bad_inner(entry: bytes) -> bytearray:
    return wrapper(compress(1, entry), 1, 1, 9)


def _sealed(body: bytes) -> bytes:
    """An inner entry at offset 0 around magic, attributes and what follows, with the right checksum."""
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


GOOD = _entry(Record(0, 5, b"k", b"v"))


@pytest.mark.parametrize(
    ("built", "what"),
    [
        (wrapper(b"", 1, 4, 9), "format 1 has no zstd"),
        (wrapper(b"", 1, 7, 9), "unknown compression codec 7"),
        (wrapper(None, 1, 1, 9), "without a value"),
        (wrapper(b"not gzip", 0, 1, 9), "gzip"),
        (_bad_inner(b""), "0 entries and 0 more"),
        (_bad_inner(GOOD + b"tail"), "1 entries and 4 more"),
        (_bad_inner(GOOD[:-1]), "inner entry of"),
        (_bad_inner(struct.pack(">qi", 0, 13) + bytes(13)), "inner entry of 13 bytes"),
        (_bad_inner(bytes(wrapper(b"x", 1, 1, 0))), "inside a compressed entry"),
        (_bad_inner(GOOD[:-1] + b"!"), "wrong checksum"),
        (_bad_inner(_entry(Record(99, 5, b"k", b"v"))), "entry offset 9 below the last offset inside, 99"),
        (_bad_inner(_sealed(struct.pack(">bbqii", 2, 0, 0, -1, -1))), "format 2 inside"),
        (_bad_inner(_sealed(struct.pack(">bbii", 0, 0, -1, 9))), "bytes off its size"),
        (_bad_inner(_sealed(struct.pack(">bbii", 0, 0, 9, -1))), "ends early"),
        (_bad_inner(_sealed(struct.pack(">bbiiq", 0, 0, -1, -1, 0))), "-8 bytes off its size"),
        (_bad_inner(_sealed(struct.pack(">bbii", 1, 0, 0, 0))), "ends early"),
    ],
)
def test_entries_that_lie(built: bytearray, what: str) -> None:
    with pytest.raises(MalformedBatch, match=what):
        decode_records(built, 0, only(built), TOPIC, PARTITION)
