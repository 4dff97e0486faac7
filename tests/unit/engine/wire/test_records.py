"""Decoding and encoding v2 batches, against aiokafka's reader and writer."""

import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import MalformedBatch
from engine.wire.batch import check_crc, restamp
from engine.wire.decode import raw_records
from engine.wire.record import BadRecords
from engine.wire.records import Record, encode_batch, walk_records
from tests.unit.engine.wire.batches import (
    DELETE_HORIZON,
    LOG_APPEND,
    PARTITION,
    TOPIC,
    TRANSACTIONAL,
    batch,
    contents,
    control,
    decoded,
    header_of,
    only,
    read_by_aiokafka,
    records,
    with_area,
)

pytestmark = pytest.mark.usefixtures("way")

CODECS = range(5)
FIELD = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=5).map(str.encode), FIELD), max_size=3).map(tuple)
TIMESTAMP = st.just(-1) | st.integers(0, 2**42)
CONTENT = st.lists(st.tuples(TIMESTAMP, FIELD, FIELD, HEADERS), min_size=1, max_size=30)


def as_records(
    content: list[tuple[int, bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]]], offsets: list[int]
) -> list[Record]:
    return [Record(offset, *fields) for offset, fields in zip(offsets, content, strict=True)]


@pytest.mark.parametrize("codec", CODECS)
def test_decodes_what_aiokafka_wrote(codec: int) -> None:
    content = records(200, first=30)
    built = batch(content, codec)
    assert header_of(built).codec == codec
    assert decoded(built) == content == read_by_aiokafka(built)


def test_decodes_offset_gaps_and_control_records() -> None:
    content = [record for record in records(20, first=30) if record.offset % 3]
    assert decoded(batch(content, 3)) == content
    assert decoded(control(1, 12))[0].key == bytes.fromhex("00000001")


def test_under_log_append_time_all_records_have_the_batch_s_timestamp() -> None:
    found = decoded(batch(records(5), bits=LOG_APPEND, max_timestamp=99))
    assert [record.timestamp for record in found] == [99] * 5


def test_an_emptied_batch_has_no_records() -> None:
    built = batch(records(5), 2)
    struct.pack_into(">i", built, 57, 0)
    assert decoded(with_area(built, b"")) == []


@given(CONTENT, st.sampled_from(CODECS))
def test_encoded_batches_read_the_same_everywhere(content: list[Any], codec: int) -> None:
    wanted = as_records(content, list(range(len(content))))
    built = encode_batch(wanted, codec)
    header = only(built)
    check_crc(built, 0, header, TOPIC, PARTITION)
    assert decoded(built) == wanted == read_by_aiokafka(built)
    assert (header.base_offset, header.leader_epoch, header.attributes) == (0, -1, codec)
    assert header.record_count == header.last_offset_delta + 1 == len(wanted)
    assert header.base_timestamp == wanted[0].timestamp
    assert header.max_timestamp == max(record.timestamp for record in wanted)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)


@given(CONTENT, st.sampled_from(CODECS), st.sampled_from([0, TRANSACTIONAL, DELETE_HORIZON, 0x50]), st.integers(0, 9))
def test_restamp_keeps_every_record(content: list[Any], codec: int, bits: int, at: int) -> None:
    source = batch(as_records(content, list(range(500, 500 + len(content)))), codec, bits=bits)
    after = bytearray(at) + source
    restamp(after, at, header_of(source), 2**40, 9, 2**31 - 1)
    del after[:at]
    check_crc(after, 0, only(after), TOPIC, PARTITION)
    assert contents(decoded(after)) == contents(decoded(source)) == contents(read_by_aiokafka(after))
    assert [record.offset for record in decoded(after)] == list(range(len(content)))


def test_encodes_a_producer() -> None:
    header = only(encode_batch(records(3), 0, producer_id=8, producer_epoch=2, base_sequence=77))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (8, 2, 77)


def test_encode_is_byte_for_byte_aiokafka_s() -> None:
    content = records(300)
    ours = encode_batch(content, 0, producer_id=77, producer_epoch=5, base_sequence=1000)
    theirs = batch(content, 0)
    assert ours[16:] == theirs[16:]


def test_a_timestamp_beyond_64_bits_is_refused() -> None:
    with pytest.raises(BadRecords, match="64 bits"):
        encode_batch([Record(0, 2**63, None, None)], 0)


# A whole area of one record: attributes, timestamp delta, offset delta, key null, value null, no headers.
ONE = bytes.fromhex("0c000000010100")


@pytest.mark.parametrize(
    ("area", "count", "what"),
    [
        (ONE, 2, "2 records do not fit into 7 bytes"),
        (b"", 1, "1 records do not fit into 0 bytes"),
        (ONE + b"\x00", 1, "1 bytes after the last"),
        (ONE + ONE, 2, "offset delta 0 after 0"),
        (bytes.fromhex("0c000014010100"), 1, "offset delta 10 after -1, last offset delta 9"),
        (bytes.fromhex("0c000001010100"), 1, "offset delta -1"),
        (bytes.fromhex("0e000000010100"), 1, "a record of 7 bytes"),
        (bytes.fromhex("04000000010100"), 1, "a record of 2 bytes"),
        (bytes.fromhex("01000000010100"), 1, "a record of -1 bytes"),
        (b"\xff" * 12, 1, "record 0 of 1: varint longer"),
        (b"\x80" * 7, 1, "record 0 of 1: index out of range"),
        (bytes.fromhex("0c000000060100"), 1, "a field of 3 bytes, 2 left"),
        (bytes.fromhex("0c000000010001"), 1, "counts -1 headers"),
        (bytes.fromhex("0c000000010002"), 1, "counts 1 headers"),
        (bytes.fromhex("0e00000001010200"), 1, "index out of range"),
        (bytes.fromhex("100000000101020101"), 1, "header without a key"),
        (bytes.fromhex("0e00000001010000"), 1, r"-1 bytes off"),
        (bytes.fromhex("0c000000010180"), 1, "index out of range"),
    ],
)
def test_an_area_that_lies(area: bytes, count: int, what: str) -> None:
    built = batch(records(10, first=6))
    struct.pack_into(">i", built, 57, count)
    with pytest.raises(MalformedBatch, match=what) as caught:
        decoded(with_area(built, area))
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == (TOPIC, PARTITION, 6)


def test_records_one_by_one_are_those_of_the_batch_and_a_lie_is_met_where_it_stands() -> None:
    built = batch(records(10, first=6))
    header = header_of(built)
    walked = walk_records(raw_records(built, 0, header), header, TOPIC, PARTITION)
    assert list(walked) == decoded(built)
    lying = walk_records(ONE + b"\x00" * 7, msgspec.structs.replace(header, record_count=2), TOPIC, PARTITION)
    assert next(lying).offset == 6
    with pytest.raises(MalformedBatch, match="orders-3 at offset 6"):
        next(lying)


def test_bytes_that_do_not_inflate() -> None:
    built = batch(records(10, first=6), 1)
    with pytest.raises(MalformedBatch, match="orders-3 at offset 6: gzip"):
        decoded(with_area(built, b"not gzip"))
