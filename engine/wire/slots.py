"""Finds where each record of a v2 record area begins and ends, without building records.

length varint | attributes 1 | timestamp delta varint | offset delta varint | key .. headers
^ start         ^ body                               ^ delta_at          ^ tail          ^ end
"""

from collections.abc import Iterator

from engine.wire.record import BadRecords
from engine.wire.varint import BadVarint, read_varint

# (start, body, delta_at, tail, end, offset delta, timestamp delta); a bare tuple, because there is one per record.
# `delta_at` is the index of the offset delta, `tail` the index right after it.
Slot = tuple[int, int, int, int, int, int, int]


def scan(
    raw: bytes, count: int, last_offset_delta: int, *, at: int = 0, end: int | None = None, before: int = -1
) -> Iterator[Slot]:
    """Yield the slots of the `count` records that must fill `raw[at:end]`. Raises BadRecords if they do not.

    It yields one slot at a time, because the slots of a batch of small records take about thirty times the bytes of the
    records. `before`: the offset delta before the first record, if `raw[at:end]` is only a part of the area.
    """
    end = len(raw) if end is None else end
    if count * 7 > end - at:  # the smallest record: length, attributes and five varints of one byte
        raise BadRecords(f"{count} records do not fit into {end - at} bytes")
    for index in range(count):
        try:
            slot = _read_slot(raw, at)
        except (IndexError, BadVarint) as error:
            raise BadRecords(f"record {index} of {count}: {error}") from error
        at, delta = slot[4], slot[5]
        if not before < delta <= last_offset_delta:
            raise BadRecords(f"offset delta {delta} after {before}, last offset delta {last_offset_delta}")
        before = delta
        yield slot
    if at != end:
        raise BadRecords(f"{end - at} bytes after the last of {count} records")


def _read_slot(raw: bytes, start: int) -> Slot:
    length, body = read_varint(raw, start)
    timestamp_delta, delta_at = read_varint(raw, body + 1)
    offset_delta, tail = read_varint(raw, delta_at)
    end = body + length
    if not tail < end <= len(raw):
        raise BadRecords(f"a record of {length} bytes at {start}, the area has {len(raw)}")
    return start, body, delta_at, tail, end, offset_delta, timestamp_delta
