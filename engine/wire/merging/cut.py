"""Cuts a batch before given records, to find the record that the target refuses, or to send the others without it."""

from collections.abc import Sequence
from itertools import pairwise

from engine.base.errors import BatchTooLarge, MalformedBatch
from engine.wire import areas
from engine.wire.areas import InflatedBatch, RecordSlice, inflate
from engine.wire.bounded import MAX_INFLATED_BYTES, InflatedTooLarge, InflateError
from engine.wire.encode import seal
from engine.wire.header import BatchHeader, Buffer
from engine.wire.record import BadRecords
from engine.wire.reencode import Encoded


def halves(record_count: int) -> tuple[int, ...]:
    """Return where to cut a batch of several records if the target does not say which record it refuses."""
    return (record_count // 2,)


def around(index: int, record_count: int) -> tuple[int, ...]:
    """Return where to cut a batch so that the record at `index` is alone."""
    return tuple(at for at in (index, index + 1) if 0 < at < record_count)


def cut(
    buffer: Buffer,
    header: BatchHeader,
    before: Sequence[int],
    topic: str,
    partition: int,
    *,
    inflated_bytes: int = MAX_INFLATED_BYTES,
) -> list[Encoded]:
    """Return the records of the batch at the start of `buffer` as several batches, with the same codec and timestamps.

    `before`: rising indexes of records, without 0, at which the batches after the first begin. Raises `MalformedBatch`
    if the contents do not match the header, `BatchTooLarge` if they inflate to more than `inflated_bytes`.
    """
    try:
        source = inflate(buffer, 0, header, inflated_bytes)
        return [_sealed(source, [part]) for part in _slices(source, before)]
    except InflatedTooLarge as error:
        raise BatchTooLarge(topic, partition, header.base_offset, str(error)) from error
    except (InflateError, BadRecords) as error:
        raise MalformedBatch(topic, partition, header.base_offset, str(error)) from error


def without(
    buffer: Buffer,
    header: BatchHeader,
    left_out: Sequence[int],
    topic: str,
    partition: int,
    *,
    inflated_bytes: int = MAX_INFLATED_BYTES,
) -> Encoded | None:
    """Return the batch at the start of `buffer` without the records at the indexes `left_out`; None if none is left.

    Codec and timestamps of the other records stay. Raises what `cut` raises.
    """
    count, absent = header.record_count, set(left_out)
    if len(absent) == count:
        return None
    before = sorted({at for index in absent for at in (index, index + 1) if 0 < at < count})
    try:
        source = inflate(buffer, 0, header, inflated_bytes)
        parts = zip((0, *before), _slices(source, before), strict=True)
        kept = [part for first, part in parts if first not in absent]
        return _sealed(source, kept)
    except InflatedTooLarge as error:
        raise BatchTooLarge(topic, partition, header.base_offset, str(error)) from error
    except (InflateError, BadRecords) as error:
        raise MalformedBatch(topic, partition, header.base_offset, str(error)) from error


def _slices(source: InflatedBatch, before: Sequence[int]) -> list[RecordSlice]:
    wanted = {0, *before}
    cuts: list[tuple[int, int, int]] = []  # where each batch begins: byte, index of its record, offset delta before
    known = -1
    for index, slot in enumerate(source.slots(source.whole)):
        if index in wanted:
            cuts.append((slot[0], index, known))
        known = slot[5]
    cuts.append((len(source.raw), source.count, known))
    return [RecordSlice(at, end, last - first, known) for (at, first, known), (end, last, _) in pairwise(cuts)]


def _sealed(source: InflatedBatch, parts: Sequence[RecordSlice]) -> Encoded:
    written = areas.write([(source, part) for part in parts], source.base_timestamp)
    newest, count = source.base_timestamp + written.max_delta, sum(part.count for part in parts)
    payload = seal(written.area, source.codec, count, source.base_timestamp, newest)
    return Encoded(payload, count, written.runs, written.next_offset)
