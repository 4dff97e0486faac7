"""Rewrites a batch that may not pass: no gaps in offset deltas, create time, pieces that the target accepts.

The base timestamp stays that of the source batch, so timestamp deltas stay valid, except for log-append time.
"""

from itertools import pairwise

import msgspec

from engine.base.errors import BatchTooLarge, MalformedBatch
from engine.wire import areas
from engine.wire.areas import InflatedBatch, RecordSlice, Runs, inflate
from engine.wire.bounded import MAX_INFLATED_BYTES, InflatedTooLarge, InflateError
from engine.wire.encode import seal
from engine.wire.header import BatchHeader, Buffer
from engine.wire.record import BadRecords

# Pieces of a split batch compress a little worse than the whole batch.
_SPLIT_SLACK = 1.05


class Encoded(msgspec.Struct, frozen=True, gc=False):
    """One batch for the target, and the source offsets of its records.

    `runs` has (index of a record in the piece, its source offset) for the start of each run, index 0 first.
    `next_offset` is the source offset to continue from after this piece is acknowledged.
    """

    payload: bytearray
    record_count: int
    runs: Runs
    next_offset: int


class Coding(msgspec.Struct, frozen=True):
    """The most bytes that a batch may inflate to, and the codec of the new batches; None: that of the source batch."""

    inflated_bytes: int = MAX_INFLATED_BYTES
    codec: int | None = None


AS_IT_IS = Coding()


def reencode(
    buffer: Buffer,
    at: int,
    header: BatchHeader,
    topic: str,
    partition: int,
    *,
    wanted_offset: int,
    max_batch_bytes: int,
    coding: Coding = AS_IT_IS,
) -> list[Encoded]:
    """Return the records from `wanted_offset` on as batches of at most `max_batch_bytes`, with the same timestamps.

    A single record above the limit goes into its own batch, compressed as much as its codec can: the target decides
    about it. Empty if no record remains. Raises `MalformedBatch` if the contents do not match the header,
    `BatchTooLarge` if they inflate to more than `coding` allows.
    """
    try:
        source = inflate(buffer, at, header, coding.inflated_bytes)
        part = _wanted(source, wanted_offset)
        codec = source.codec if coding.codec is None else coding.codec
        pieces = _fit(source, part, max_batch_bytes, codec) if part is not None else []
    except InflatedTooLarge as error:
        raise BatchTooLarge(topic, partition, header.base_offset, str(error)) from error
    except (InflateError, BadRecords) as error:
        raise MalformedBatch(topic, partition, header.base_offset, str(error)) from error
    if pieces:
        pieces[-1] = msgspec.structs.replace(pieces[-1], next_offset=source.next_offset)
    return pieces


def _wanted(source: InflatedBatch, wanted_offset: int) -> RecordSlice | None:
    """Return the records from an offset on; None if the log cleaner left none of them."""
    if wanted_offset <= source.base_offset:
        return source.whole if source.count else None
    for index, slot in enumerate(source.slots(source.whole)):
        if source.base_offset + slot[5] >= wanted_offset:
            return RecordSlice(slot[0], len(source.raw), source.count - index, slot[5] - 1)
    return None


def _fit(source: InflatedBatch, part: RecordSlice, max_batch_bytes: int, codec: int) -> list[Encoded]:
    """Encode some records; if the result is too large, divide them by its measured size and encode the parts."""
    piece = _encode(source, part, codec)
    size = len(piece.payload)
    if size <= max_batch_bytes:
        return [piece]
    if part.count == 1:  # its producer may have compressed it more, so that it fitted
        return [_encode(source, part, codec, hard=True)]
    parts = max(2, int(size * _SPLIT_SLACK / max_batch_bytes) + 1)
    found: list[Encoded] = []
    for smaller in _divide(source, part, parts):
        found += _fit(source, smaller, max_batch_bytes, codec)
    return found


def _divide(source: InflatedBatch, part: RecordSlice, parts: int) -> list[RecordSlice]:
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
    return [RecordSlice(at, end, last - first, known) for (at, first, known), (end, last, _) in pairwise(cuts)]


def _encode(source: InflatedBatch, part: RecordSlice, codec: int, *, hard: bool = False) -> Encoded:
    base_timestamp = source.base_timestamp
    written = areas.write([(source, part)], base_timestamp)
    newest = base_timestamp + written.max_delta
    payload = seal(written.area, codec, part.count, base_timestamp, newest, hard=hard)
    return Encoded(payload, part.count, written.runs, written.next_offset)
