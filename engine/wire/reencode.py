"""A batch that may not pass, written anew: offset deltas without gaps, create time, in pieces the target accepts.

Record bodies are copied as they are; only length and offset delta change, and the timestamp delta where log-append
time gives every record the same one. The base timestamp stays the source batch's, so the other deltas stay right.
"""

import msgspec

from engine.errors import MalformedBatch
from engine.wire.bounded import InflateError
from engine.wire.decode import raw_records
from engine.wire.encode import seal, write_area
from engine.wire.header import BatchHeader, Buffer
from engine.wire.legacy import read_legacy_records
from engine.wire.record import BadRecords
from engine.wire.slots import Slot, scan
from engine.wire.varint import write_varint

# Pieces of a split batch compress a little worse than the whole did.
_SPLIT_SLACK = 1.05


class Encoded(msgspec.Struct, frozen=True, gc=False):
    """One batch for the target, and which source offsets its records have.

    `runs` holds (index of a record in the piece, its source offset) wherever a straight run begins, index 0 first.
    `next_offset` is the source offset to go on from when this piece is acknowledged.
    """

    payload: bytearray
    record_count: int
    runs: tuple[tuple[int, int], ...]
    next_offset: int


class _Source(msgspec.Struct, frozen=True, gc=False):
    """The records of a source batch as an inflated area with slots, whatever its format was."""

    raw: bytes
    slots: list[Slot]
    base_offset: int
    next_offset: int
    base_timestamp: int
    is_flat: bool  # every record has the base timestamp (log-append time)
    codec: int


def reencode(
    buffer: Buffer,
    at: int,
    header: BatchHeader,
    topic: str,
    partition: int,
    *,
    wanted_offset: int,
    max_batch_bytes: int,
) -> list[Encoded]:
    """Return the records from `wanted_offset` on as batches of at most `max_batch_bytes`, same codec, same timestamps.

    A single record above the limit stays alone in a batch of its own, compressed as hard as its codec can: the target's
    answer to it decides. Empty if no record remains. `MalformedBatch` for contents that are not what the header says.
    """
    try:
        source = _open(buffer, at, header)
        slots = [slot for slot in source.slots if source.base_offset + slot[5] >= wanted_offset]
        pieces = _fit(source, slots, max_batch_bytes) if slots else []
    except (InflateError, BadRecords) as error:
        raise MalformedBatch(topic, partition, header.base_offset, str(error)) from error
    if pieces:
        pieces[-1] = msgspec.structs.replace(pieces[-1], next_offset=source.next_offset)
    return pieces


def _open(buffer: Buffer, at: int, header: BatchHeader) -> _Source:
    if header.magic < 2:
        return _open_legacy(buffer, at, header)
    raw = raw_records(buffer, at, header)
    slots = scan(raw, header.record_count, header.last_offset_delta)
    is_flat = header.is_log_append_time
    base_timestamp = header.max_timestamp if is_flat else header.base_timestamp
    return _Source(raw, slots, header.base_offset, header.next_offset, base_timestamp, is_flat, header.codec)


def _open_legacy(buffer: Buffer, at: int, header: BatchHeader) -> _Source:
    """Write the old records as a v2 area first: rare enough to take the long way."""
    records = read_legacy_records(buffer, at, header)
    base_offset, last_offset, base_timestamp = records[0].offset, records[-1].offset, records[0].timestamp
    raw = write_area(records, [record.offset - base_offset for record in records], base_timestamp)
    slots = scan(raw, len(records), last_offset - base_offset)
    next_offset = max(header.next_offset, last_offset + 1)
    return _Source(raw, slots, base_offset, next_offset, base_timestamp, False, header.codec)


def _fit(source: _Source, slots: list[Slot], max_batch_bytes: int) -> list[Encoded]:
    """Encode the slots; where the result is too large, divide by its measured size and encode the parts."""
    piece = _encode(source, slots)
    size = len(piece.payload)
    if size <= max_batch_bytes:
        return [piece]
    if len(slots) == 1:  # its producer may have compressed harder than we do, and then it fitted
        return [_encode(source, slots, hard=True)]
    parts = max(2, int(size * _SPLIT_SLACK / max_batch_bytes) + 1)
    return [piece for part in _divide(slots, parts) for piece in _fit(source, part, max_batch_bytes)]


def _divide(slots: list[Slot], parts: int) -> list[list[Slot]]:
    """Cut two or more slots into two to `parts` groups of about equal uncompressed size.

    A record belongs to the group its middle falls into: the middles of the first and the last are at least half of all
    bytes apart, so there are always two groups and `_fit` ends.
    """
    share = sum(slot[4] - slot[0] for slot in slots) / parts
    groups: list[list[Slot]] = []
    current = -1
    passed = 0
    for slot in slots:
        size = slot[4] - slot[0]
        group = int((passed + size / 2) / share)
        passed += size
        if group != current:
            groups.append([])
            current = group
        groups[-1].append(slot)
    return groups


def _encode(source: _Source, slots: list[Slot], *, hard: bool = False) -> Encoded:
    max_delta = 0 if source.is_flat else max(slot[6] for slot in slots)
    area = _write_flat(source.raw, slots) if source.is_flat else _write(source.raw, slots)
    base_timestamp = source.base_timestamp
    payload = seal(area, source.codec, len(slots), base_timestamp, base_timestamp + max_delta, hard=hard)
    return Encoded(payload, len(slots), _runs(source, slots), source.base_offset + slots[-1][5] + 1)


def _write(raw: bytes, slots: list[Slot]) -> bytes:
    out = bytearray()
    for index, (start, body, delta_at, tail, end, offset_delta, _) in enumerate(slots):
        if offset_delta == index:
            out += raw[start:end]
            continue
        delta = write_varint(index)
        out += write_varint(end - body - (tail - delta_at) + len(delta))
        out += raw[body:delta_at]
        out += delta
        out += raw[tail:end]
    return bytes(out)


def _write_flat(raw: bytes, slots: list[Slot]) -> bytes:
    out = bytearray()
    for index, (_, body, _, tail, end, _, _) in enumerate(slots):
        delta = write_varint(index)
        out += write_varint(2 + len(delta) + end - tail)
        out += raw[body : body + 1]
        out += b"\x00"  # timestamp delta
        out += delta
        out += raw[tail:end]
    return bytes(out)


def _runs(source: _Source, slots: list[Slot]) -> tuple[tuple[int, int], ...]:
    runs: list[tuple[int, int]] = []
    shift = None
    for index, slot in enumerate(slots):
        if slot[5] - index != shift:
            shift = slot[5] - index
            runs.append((index, source.base_offset + slot[5]))
    return tuple(runs)
