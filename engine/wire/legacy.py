"""Reads record formats 0 and 1 (Kafka's `LegacyRecord` and `AbstractLegacyRecordBatch.DeepRecordsIterator`).

    offset 8 | size 4 | CRC-32 4 | magic 1 | attributes 1 | [timestamp 8] | key size 4, key | value size 4, value

The value of a compressed entry contains entries of the same form. In format 1 their offsets are relative, and the
offset of the outer entry is the absolute offset of the last inner entry.
"""

import struct
import zlib

from engine.wire.bounded import MAX_INFLATED_BYTES
from engine.wire.codecs import ZSTD, decompress
from engine.wire.header import CODEC_MASK, LOG_APPEND_BIT, LOG_OVERHEAD_BYTES, BatchHeader, Buffer
from engine.wire.record import BadRecords, Record

_ENTRY = struct.Struct(">qi")
_FIXED = struct.Struct(">Ibb")  # CRC, magic, attributes
_I64 = struct.Struct(">q")
_I32 = struct.Struct(">i")
_LEAST_SIZE = 14


def read_legacy_records(
    buffer: Buffer, at: int, header: BatchHeader, limit_bytes: int = MAX_INFLATED_BYTES
) -> list[Record]:
    """Return the records of one entry. Raises `BadRecords` or `InflateError` for wrong bytes."""
    outer = _read_entry(bytes(memoryview(buffer)[at + LOG_OVERHEAD_BYTES : at + header.size_bytes]), header.base_offset)
    if header.codec == 0:
        return [outer]
    if header.codec == ZSTD:
        raise BadRecords(f"format {header.magic} has no zstd")
    if outer.value is None:
        raise BadRecords("a compressed entry without a value")
    inner = _inner_records(decompress(header.codec, outer.value, limit_bytes), header)
    if header.magic == 0:
        return inner
    return _with_absolute_offsets(inner, header.base_offset)


def _with_absolute_offsets(inner: list[Record], last_offset: int) -> list[Record]:
    relative_last = inner[-1].offset
    if last_offset == 0:  # some librdkafka versions wrote absolute offsets inside (Kafka accepts this too)
        return inner
    if last_offset < relative_last:
        raise BadRecords(f"entry offset {last_offset} below the last offset inside, {relative_last}")
    base = last_offset - relative_last
    return [Record(base + record.offset, record.timestamp, record.key, record.value) for record in inner]


def _inner_records(raw: bytes, header: BatchHeader) -> list[Record]:
    records: list[Record] = []
    at = 0
    while at + LOG_OVERHEAD_BYTES <= len(raw):
        offset, size = _ENTRY.unpack_from(raw, at)
        at += LOG_OVERHEAD_BYTES
        if not _LEAST_SIZE <= size <= len(raw) - at:
            raise BadRecords(f"an inner entry of {size} bytes, {len(raw) - at} left")
        entry = raw[at : at + size]
        if entry[5] & CODEC_MASK:
            raise BadRecords("a compressed entry inside a compressed entry")
        record = _read_entry(entry, offset)
        if header.attributes & LOG_APPEND_BIT:
            record = Record(record.offset, header.max_timestamp, record.key, record.value)
        records.append(record)
        at += size
    if not records or at != len(raw):
        raise BadRecords(f"{len(records)} entries and {len(raw) - at} more bytes in a compressed entry")
    return records


def _read_entry(entry: bytes, offset: int) -> Record:
    """Read one entry from its CRC on."""
    crc, magic, _ = _FIXED.unpack_from(entry)
    if zlib.crc32(memoryview(entry)[4:]) != crc:
        raise BadRecords(f"entry at offset {offset}: wrong checksum")
    at = _FIXED.size
    timestamp = -1
    try:
        if magic == 1:
            (timestamp,) = _I64.unpack_from(entry, at)
            at += _I64.size
        elif magic != 0:
            raise BadRecords(f"entry at offset {offset}: format {magic} inside a format 0 or 1 entry")
        key, at = _nullable(entry, at)
        value, at = _nullable(entry, at)
    except struct.error as error:
        raise BadRecords(f"entry at offset {offset} ends early") from error
    if at != len(entry):
        raise BadRecords(f"entry at offset {offset} is {at - len(entry):+d} bytes off its size")
    return Record(offset, timestamp, key, value)


def _nullable(entry: bytes, at: int) -> tuple[bytes | None, int]:
    (size,) = _I32.unpack_from(entry, at)
    at += _I32.size
    if size < 0:
        return None, at
    return entry[at : at + size], at + size
