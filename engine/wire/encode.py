"""Encodes records into v2 batches like Kafka's `MemoryRecordsBuilder`: create time, offset deltas 0 .. n-1."""

import struct
from collections.abc import Sequence

from crc32c import crc32c

from engine.wire.codecs import NONE, compress
from engine.wire.header import HEADER_BYTES, LAYOUT, LOG_OVERHEAD_BYTES
from engine.wire.record import BadRecords, Record
from engine.wire.varint import write_varint

_CRC = struct.Struct(">I")
_CRC_AT = 17
_ATTRIBUTES_AT = 21
_NULL = write_varint(-1)
_I64_RANGE = range(-(1 << 63), 1 << 63)


def encode_batch(
    records: Sequence[Record],
    codec: int,
    *,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytearray:
    """Return the records (at least one) as one batch with base offset 0; their own offsets are dropped.

    As in `MemoryRecordsBuilder`, the base timestamp is the first record's, the max timestamp the largest (-1: none).
    """
    base_timestamp = records[0].timestamp
    area = write_area(records, range(len(records)), base_timestamp)
    max_timestamp = max(record.timestamp for record in records)
    return seal(area, codec, len(records), base_timestamp, max_timestamp, (producer_id, producer_epoch, base_sequence))


def write_area(records: Sequence[Record], deltas: Sequence[int], base_timestamp: int) -> bytes:
    """Return the uncompressed record area, each record with its offset delta."""
    out = bytearray()
    for record, delta in zip(records, deltas, strict=True):
        body = bytearray(1)  # attributes, unused
        body += write_varint(record.timestamp - base_timestamp)
        body += write_varint(delta)
        body += _sized(record.key)
        body += _sized(record.value)
        body += write_varint(len(record.headers))
        for name, content in record.headers:
            body += _sized(name)
            body += _sized(content)
        out += write_varint(len(body))
        out += body
    return bytes(out)


def _sized(field: bytes | None) -> bytes:
    return _NULL if field is None else write_varint(len(field)) + field


def seal(
    area: bytes | bytearray,
    codec: int,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    producer: tuple[int, int, int] = (-1, -1, -1),
    *,
    hard: bool = False,
) -> bytearray:
    """Compress the area of `count` records (`hard`: slower, fewer bytes) and put a header before it.

    The attributes contain only the codec; `producer` is (id, epoch, base sequence). Raises `BadRecords` for a timestamp
    beyond 64 bits.
    """
    if base_timestamp not in _I64_RANGE or max_timestamp not in _I64_RANGE:
        raise BadRecords(f"timestamps from {base_timestamp} to {max_timestamp} do not fit 64 bits")
    body = compress(codec, area, hard=hard) if codec != NONE else area
    batch = bytearray(HEADER_BYTES + len(body))
    length = len(batch) - LOG_OVERHEAD_BYTES
    max_timestamp = max(-1, max_timestamp)
    LAYOUT.pack_into(batch, 0, 0, length, -1, 2, 0, codec, count - 1, base_timestamp, max_timestamp, *producer, count)
    batch[HEADER_BYTES:] = body
    _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[_ATTRIBUTES_AT:]))
    return batch
