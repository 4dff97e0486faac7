"""Decodes the records of a batch, for every format and codec."""

from collections.abc import Iterator

from engine.base.errors import MalformedBatch
from engine.wire.bounded import MAX_INFLATED_BYTES, InflateError
from engine.wire.codecs import decompress
from engine.wire.header import HEADER_BYTES, BatchHeader, Buffer
from engine.wire.legacy import read_legacy_records
from engine.wire.record import BadRecords, Record
from engine.wire.slots import scan
from engine.wire.varint import BadVarint, read_varint


def decode_records(buffer: Buffer, at: int, header: BatchHeader, topic: str, partition: int) -> list[Record]:
    """Return the records of the batch or legacy entry at `at`, control records too. Raises `MalformedBatch`.

    With log-append time every record has the batch's max timestamp. Inflates up to `MAX_INFLATED_BYTES`.
    """
    try:
        if header.magic < 2:
            return read_legacy_records(buffer, at, header)
        return list(_walked(raw_records(buffer, at, header), header))
    except (InflateError, BadRecords) as error:
        raise MalformedBatch(topic, partition, header.base_offset, str(error)) from error


def walk_records(raw: bytes, header: BatchHeader, topic: str, partition: int) -> Iterator[Record]:
    """Yield the records of an inflated v2 record area one by one. Raises `MalformedBatch` at the first wrong record."""
    try:
        yield from _walked(raw, header)
    except BadRecords as error:
        raise MalformedBatch(topic, partition, header.base_offset, str(error)) from error


def raw_records(buffer: Buffer, at: int, header: BatchHeader, limit_bytes: int = MAX_INFLATED_BYTES) -> bytes:
    """Return the inflated record area of a v2 batch; empty for an emptied batch. Raises InflateError."""
    if header.record_count == 0:
        return b""
    data = bytes(memoryview(buffer)[at + HEADER_BYTES : at + header.size_bytes])
    return decompress(header.codec, data, limit_bytes)


def _walked(raw: bytes, header: BatchHeader) -> Iterator[Record]:
    for _, _, _, tail, end, offset_delta, timestamp_delta in scan(raw, header.record_count, header.last_offset_delta):
        yield _record(raw, tail, end, header.base_offset + offset_delta, _timestamp(header, timestamp_delta))


def _timestamp(header: BatchHeader, delta: int) -> int:
    return header.max_timestamp if header.is_log_append_time else header.base_timestamp + delta


def _record(raw: bytes, at: int, end: int, offset: int, timestamp: int) -> Record:
    """Return the record whose key begins at `at` and which must end exactly at `end`."""
    try:
        key, at = _nullable(raw, at, end)
        value, at = _nullable(raw, at, end)
        count, at = read_varint(raw, at)
        if not 0 <= count <= end - at:
            raise BadRecords(f"record at offset {offset} counts {count} headers")
        headers = []
        for _ in range(count):
            name, at = _nullable(raw, at, end)
            if name is None:
                raise BadRecords(f"record at offset {offset} has a header without a key")
            content, at = _nullable(raw, at, end)
            headers.append((name, content))
    except (IndexError, BadVarint) as error:
        raise BadRecords(f"record at offset {offset}: {error}") from error
    if at != end:
        raise BadRecords(f"record at offset {offset} is {at - end:+d} bytes off its length")
    return Record(offset, timestamp, key, value, tuple(headers))


def _nullable(raw: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    """Read a length and that many bytes; a negative length is null (`Utils.readBytes`)."""
    size, at = read_varint(raw, at)
    if size < 0:
        return None, at
    if at + size > end:
        raise BadRecords(f"a field of {size} bytes, {end - at} left in its record")
    return raw[at : at + size], at + size
