"""Splits fetched record sets, and checks, judges and restamps batches in place, without opening them.

This is the hot path: one `struct` call per header, one CRC pass per check, no byte of a batch copied.
"""

import struct
import zlib
from collections.abc import Iterator

from crc32c import crc32c

from engine.base.errors import CorruptBatch, MalformedBatch, UnknownMagic
from engine.wire import native
from engine.wire.bounded import InflateError
from engine.wire.codecs import decompress
from engine.wire.header import (
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LAYOUT,
    LOG_OVERHEAD_BYTES,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    read_header,
)
from engine.wire.varint import BadVarint, read_varint
from engine.wire.verdict import Reason, Verdict, judge

__all__ = [
    "HEADER_BYTES",
    "BatchHeader",
    "Reason",
    "Verdict",
    "check_crc",
    "control_type",
    "judge",
    "read_header",
    "restamp",
    "split_batches",
]

_ATTRIBUTES_AT = 21
_PREFIX = struct.Struct(">qiib")  # base offset .. magic, alike in all formats
_HEAD = struct.Struct(">qiibI")  # base offset .. CRC
_BODY = struct.Struct(">hiqqqhi")  # attributes .. base sequence, where the CRC begins
_LEGACY = struct.Struct(">qiIbb")  # offset, size, CRC-32, magic, attributes
_TIMESTAMP = struct.Struct(">q")
_CONTROL_BYTES = 64 * 1024  # a control batch has one record of a few bytes, which brokers do not compress
_CONTROL_KEY = struct.Struct(">hh")  # version, type
# Smallest batch length by magic: CRC, magic, attributes, [timestamp], key size, value size; v2: the header.
_LEAST_LENGTH = (14, 22, HEADER_BYTES - LOG_OVERHEAD_BYTES)
_KEEP_ATTRIBUTES = ~(TRANSACTIONAL_BIT | DELETE_HORIZON_BIT)


def _read_legacy(buffer: Buffer, at: int) -> BatchHeader:
    """Read an entry of format 0 or 1 as a header; `record_count` is 1, although a compressed entry may contain more."""
    offset, size, crc, magic, attributes = _LEGACY.unpack_from(buffer, at)
    timestamp = _TIMESTAMP.unpack_from(buffer, at + 18)[0] if magic == 1 else -1
    attributes &= 0x0F if magic == 1 else 0x07
    return BatchHeader(offset, size, -1, magic, crc, attributes, 0, timestamp, timestamp, -1, -1, -1, 1)


def split_batches(
    buffer: Buffer, start: int, end: int, topic: str, partition: int, *, expected: int = 0, is_first: bool = True
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (index, header) of each whole batch of the record set in `buffer[start:end]`, in order.

    A truncated last batch ends the iteration. Raises `UnknownMagic` for a format other than 0, 1, 2. Raises
    `MalformedBatch` for an impossible length, count or offset, and for a first batch that does not fit: from Fetch v3
    on a broker sends the first batch whole (KIP-74), so its length is wrong, and asking again would not help.

    A walk that continues another one takes `expected`, the lowest base offset that may follow, and is not `is_first`.
    """
    at = start
    while at + _PREFIX.size <= end:
        offset, length, _epoch, magic = _PREFIX.unpack_from(buffer, at)
        if not 0 <= magic <= 2:
            raise UnknownMagic(topic, partition, offset, f"record format {magic}; 0, 1 and 2 are known")
        if length < _LEAST_LENGTH[magic]:
            least = _LEAST_LENGTH[magic]
            raise MalformedBatch(topic, partition, offset, f"length {length}, format {magic} has at least {least}")
        if at + LOG_OVERHEAD_BYTES + length > end:
            break
        header = BatchHeader(*LAYOUT.unpack_from(buffer, at)) if magic == 2 else _read_legacy(buffer, at)
        if offset < expected or header.last_offset_delta < 0 or header.record_count < 0:
            raise MalformedBatch(topic, partition, offset, _impossible(header, expected))
        expected = offset + header.last_offset_delta + 1
        yield at, header
        at += LOG_OVERHEAD_BYTES + length
    if is_first and at == start < end:
        raise MalformedBatch(topic, partition, -1, f"the first batch does not fit the {end - start} bytes fetched")


def _impossible(header: BatchHeader, expected: int) -> str:
    if header.base_offset < expected:
        return f"base offset {header.base_offset} after offset {expected - 1} in the same fetch"
    return f"last offset delta {header.last_offset_delta} and record count {header.record_count} are impossible"


def check_crc(buffer: Buffer, at: int, header: BatchHeader, topic: str, partition: int) -> None:
    """Raise `CorruptBatch` unless the checksum matches: CRC-32C for v2, CRC-32 for formats 0 and 1."""
    end = at + LOG_OVERHEAD_BYTES + header.batch_length
    if header.magic == 2:
        found = crc32c(memoryview(buffer)[at + _ATTRIBUTES_AT : end])
    else:
        found = zlib.crc32(memoryview(buffer)[at + 16 : end])
    if found != header.crc:
        what = f"checksum {found:#010x}, the header says {header.crc:#010x}"
        raise CorruptBatch(topic, partition, header.base_offset, what)


def restamp(
    buffer: Buffer,
    at: int,
    header: BatchHeader,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    *,
    transactional: bool = False,
) -> None:
    """Write raymirror's producer fields into a v2 batch, in place; also base offset 0, leader epoch -1 and a new CRC.

    The batch is then in raymirror's transaction or in none, whatever it was in. The delete horizon bit is cleared
    too: with the source's horizon a target would drop tombstones at once. The base timestamp stays, because record
    timestamps are deltas to it with and without that bit (`DefaultRecordBatch.RecordIterator`).

    The batch in the buffer has the given header and a right CRC. So the compiled way does not read the records again: a
    CRC is linear, and only what the header changes is added. It also keeps an error in memory visible to the target.
    """
    attributes = header.attributes & _KEEP_ATTRIBUTES | (TRANSACTIONAL_BIT if transactional else 0)
    if native.module is not None:
        native.module.restamp(buffer, at, attributes, producer_id, producer_epoch, base_sequence)
        return
    _BODY.pack_into(
        buffer,
        at + _ATTRIBUTES_AT,
        attributes,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
    )
    length = header.batch_length
    crc = crc32c(memoryview(buffer)[at + _ATTRIBUTES_AT : at + LOG_OVERHEAD_BYTES + length])
    _HEAD.pack_into(buffer, at, 0, length, -1, 2, crc)


def control_type(buffer: Buffer, at: int, header: BatchHeader, topic: str = "", partition: int = -1) -> int:
    """Return the type of a control batch's first record: 0 abort, 1 commit, others for brokers only; -1 if emptied.

    Raises `MalformedBatch` for a record that is not a control record (`ControlRecordType.parse`).
    """
    if header.record_count == 0:
        return -1
    body = memoryview(buffer)[at + HEADER_BYTES : at + header.size_bytes]
    try:
        key = _first_key(decompress(header.codec, bytes(body), _CONTROL_BYTES))
        return int(_CONTROL_KEY.unpack_from(key)[1])
    except (InflateError, BadVarint, IndexError, struct.error) as error:
        raise MalformedBatch(topic, partition, header.base_offset, f"control record: {error}") from error


def _first_key(records: bytes) -> bytes:
    _, at = read_varint(records, 0)
    _, at = read_varint(records, at + 1)  # after length and attributes: timestamp delta
    _, at = read_varint(records, at)  # offset delta
    size, at = read_varint(records, at)
    return records[at : at + size] if size > 0 else b""
