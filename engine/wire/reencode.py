"""Rewrites a batch that may not pass: no gaps in offset deltas, create time, pieces that the target accepts.

Record bodies are copied unchanged. Only the length and the offset delta change, and the timestamp delta if log-append
time gives all records the same time. The base timestamp stays that of the source batch, so other deltas stay valid.
"""

from collections.abc import Iterator
from itertools import pairwise

import msgspec

from engine.base.errors import BatchTooLarge, MalformedBatch
from engine.wire.bounded import MAX_INFLATED_BYTES, InflatedTooLarge, InflateError
from engine.wire.decode import raw_records
from engine.wire.encode import seal, write_area
from engine.wire.header import BatchHeader, Buffer
from engine.wire.legacy import read_legacy_records
from engine.wire.record import BadRecords
from engine.wire.slots import Slot, scan
from engine.wire.varint import write_varint

# The area of some records, the starts of their runs, the last offset delta, and the largest timestamp delta.
_Written = tuple[bytearray, tuple[tuple[int, int], ...], int, int]

# Pieces of a split batch compress a little worse than the whole batch.
_SPLIT_SLACK = 1.05


class Encoded(msgspec.Struct, frozen=True, gc=False):
    """One batch for the target, and the source offsets of its records.

    `runs` has (index of a record in the piece, its source offset) for the start of each run, index 0 first.
    `next_offset` is the source offset to continue from after this piece is acknowledged.
    """

    payload: bytearray
    record_count: int
    runs: tuple[tuple[int, int], ...]
    next_offset: int


class _RecordSlice(msgspec.Struct, frozen=True, gc=False):
    """Some records of a source batch: `count` records in `raw[at:end]`, after the offset delta `before`."""

    at: int
    end: int
    count: int
    before: int


class _InflatedSource(msgspec.Struct, frozen=True, gc=False):
    """The records of a source batch of any format, as an inflated area."""

    raw: bytes
    count: int
    last_offset_delta: int
    base_offset: int
    next_offset: int
    base_timestamp: int
    is_flat: bool  # every record has the base timestamp (log-append time)
    codec: int

    @property
    def whole(self) -> _RecordSlice:
        """All records."""
        return _RecordSlice(0, len(self.raw), self.count, -1)

    def slots(self, part: _RecordSlice) -> Iterator[Slot]:
        """Yield the slots of some records. Raises `BadRecords`."""
        return scan(self.raw, part.count, self.last_offset_delta, at=part.at, end=part.end, before=part.before)


def reencode(
    buffer: Buffer,
    at: int,
    header: BatchHeader,
    topic: str,
    partition: int,
    *,
    wanted_offset: int,
    max_batch_bytes: int,
    inflated_bytes: int = MAX_INFLATED_BYTES,
) -> list[Encoded]:
    """Return the records from `wanted_offset` on as batches of at most `max_batch_bytes`, same codec, same timestamps.

    A single record above the limit goes into its own batch, compressed as much as its codec can: the target decides
    about it. Empty if no record remains. Raises `MalformedBatch` if the contents do not match the header,
    `BatchTooLarge` if they inflate to more than `inflated_bytes`.
    """
    try:
        source = _open(buffer, at, header, inflated_bytes)
        part = _wanted(source, wanted_offset)
        pieces = _fit(source, part, max_batch_bytes) if part is not None else []
    except InflatedTooLarge as error:
        raise BatchTooLarge(topic, partition, header.base_offset, str(error)) from error
    except (InflateError, BadRecords) as error:
        raise MalformedBatch(topic, partition, header.base_offset, str(error)) from error
    if pieces:
        pieces[-1] = msgspec.structs.replace(pieces[-1], next_offset=source.next_offset)
    return pieces


def _open(buffer: Buffer, at: int, header: BatchHeader, inflated_bytes: int) -> _InflatedSource:
    if header.magic < 2:
        return _open_legacy(buffer, at, header, inflated_bytes)
    raw = raw_records(buffer, at, header, inflated_bytes)
    is_flat = header.is_log_append_time
    base_timestamp = header.max_timestamp if is_flat else header.base_timestamp
    return _InflatedSource(
        raw,
        header.record_count,
        header.last_offset_delta,
        header.base_offset,
        header.next_offset,
        base_timestamp,
        is_flat,
        header.codec,
    )


def _open_legacy(buffer: Buffer, at: int, header: BatchHeader, inflated_bytes: int) -> _InflatedSource:
    """Write the old records as a v2 area first; this is slow, but rare."""
    records = read_legacy_records(buffer, at, header, inflated_bytes)
    base_offset, last_offset, base_timestamp = records[0].offset, records[-1].offset, records[0].timestamp
    raw = write_area(records, [record.offset - base_offset for record in records], base_timestamp)
    next_offset = max(header.next_offset, last_offset + 1)
    last_delta = last_offset - base_offset
    return _InflatedSource(raw, len(records), last_delta, base_offset, next_offset, base_timestamp, False, header.codec)


def _wanted(source: _InflatedSource, wanted_offset: int) -> _RecordSlice | None:
    """Return the records from an offset on; None if the log cleaner left none of them."""
    if wanted_offset <= source.base_offset:
        return source.whole if source.count else None
    for index, slot in enumerate(source.slots(source.whole)):
        if source.base_offset + slot[5] >= wanted_offset:
            return _RecordSlice(slot[0], len(source.raw), source.count - index, slot[5] - 1)
    return None


def _fit(source: _InflatedSource, part: _RecordSlice, max_batch_bytes: int) -> list[Encoded]:
    """Encode some records; if the result is too large, divide them by its measured size and encode the parts."""
    piece = _encode(source, part)
    size = len(piece.payload)
    if size <= max_batch_bytes:
        return [piece]
    if part.count == 1:  # its producer may have compressed it more, so that it fitted
        return [_encode(source, part, hard=True)]
    parts = max(2, int(size * _SPLIT_SLACK / max_batch_bytes) + 1)
    return [piece for smaller in _divide(source, part, parts) for piece in _fit(source, smaller, max_batch_bytes)]


def _divide(source: _InflatedSource, part: _RecordSlice, parts: int) -> list[_RecordSlice]:
    """Cut two or more records into two to `parts` groups of about equal uncompressed size.

    A record belongs to the group that contains its middle. The middles of the first and the last record are at least
    half of all bytes apart, so there are always two groups, and `_fit` ends.
    """
    share = (part.end - part.at) / parts
    cuts: list[tuple[int, int, int]] = []  # where each group begins: byte, index of its record, offset delta before
    current, before = -1, part.before
    for index, slot in enumerate(source.slots(part)):
        group = int(((slot[0] + slot[4]) / 2 - part.at) / share)
        if group != current:
            cuts.append((slot[0], index, before))
            current = group
        before = slot[5]
    cuts.append((part.end, part.count, before))
    return [_RecordSlice(at, end, last - first, known) for (at, first, known), (end, last, _) in pairwise(cuts)]


def _encode(source: _InflatedSource, part: _RecordSlice, *, hard: bool = False) -> Encoded:
    area, runs, last_delta, max_delta = (_write_flat if source.is_flat else _write)(source, part)
    base_timestamp = source.base_timestamp
    payload = seal(area, source.codec, part.count, base_timestamp, base_timestamp + max_delta, hard=hard)
    return Encoded(payload, part.count, runs, source.base_offset + last_delta + 1)


def _write(source: _InflatedSource, part: _RecordSlice) -> _Written:
    raw, base_offset = source.raw, source.base_offset
    out, runs, shift = bytearray(), [], -1
    offset_delta, max_delta = -1, -(1 << 63)
    for index, (start, body, delta_at, tail, end, offset_delta, timestamp_delta) in enumerate(source.slots(part)):
        if offset_delta - index != shift:
            shift = offset_delta - index
            runs.append((index, base_offset + offset_delta))
        if timestamp_delta > max_delta:
            max_delta = timestamp_delta
        if not shift:
            out += raw[start:end]
            continue
        delta = write_varint(index)
        out += write_varint(end - body - (tail - delta_at) + len(delta))
        out += raw[body:delta_at]
        out += delta
        out += raw[tail:end]
    return out, tuple(runs), offset_delta, max_delta


def _write_flat(source: _InflatedSource, part: _RecordSlice) -> _Written:
    raw, base_offset = source.raw, source.base_offset
    out, runs, shift = bytearray(), [], -1
    offset_delta = -1
    for index, (_, body, _, tail, end, offset_delta, _) in enumerate(source.slots(part)):
        if offset_delta - index != shift:
            shift = offset_delta - index
            runs.append((index, base_offset + offset_delta))
        delta = write_varint(index)
        out += write_varint(2 + len(delta) + end - tail)
        out += raw[body : body + 1]
        out += b"\x00"  # timestamp delta
        out += delta
        out += raw[tail:end]
    return out, tuple(runs), offset_delta, 0
