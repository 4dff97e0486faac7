"""Where each record of a v2 record area begins and ends, without building records.

length varint | attributes 1 | timestamp delta varint | offset delta varint | key .. headers
^ start         ^ body                               ^ delta_at          ^ tail          ^ end
"""

from collections.abc import Iterator

from engine.wire.record import BadRecords
from engine.wire.varint import BadVarint, read_varint

# (start, body, delta_at, tail, end, offset delta, timestamp delta); a bare tuple, because there is one per record.
# `delta_at` is the index of the offset delta, `tail` the one behind it.
Slot = tuple[int, int, int, int, int, int, int]


def scan(raw: bytes, count: int, last_offset_delta: int) -> list[Slot]:
    """Return the slots of the `count` records that must fill `raw`; `BadRecords` on any lie."""
    return list(walk(raw, count, last_offset_delta))


def walk(raw: bytes, count: int, last_offset_delta: int) -> Iterator[Slot]:
    """Yield the slots of the `count` records that must fill `raw`, one by one; `BadRecords` where a lie is met."""
    if count * 7 > len(raw):  # the smallest record: length, attributes and five varints of one byte
        raise BadRecords(f"{count} records cannot stand in {len(raw)} bytes")
    at = number = 0
    before = -1
    try:
        for number in range(count):  # noqa: B007 - it names the record that is to blame
            slot = _read_slot(raw, at)
            at, delta = slot[4], slot[5]
            if not before < delta <= last_offset_delta:
                raise BadRecords(f"offset delta {delta} behind {before}, last offset delta {last_offset_delta}")
            before = delta
            yield slot
    except (IndexError, BadVarint) as error:
        raise BadRecords(f"record {number} of {count}: {error}") from error
    if at != len(raw):
        raise BadRecords(f"{len(raw) - at} bytes behind the last of {count} records")


def _read_slot(raw: bytes, start: int) -> Slot:
    length, body = read_varint(raw, start)
    timestamp_delta, delta_at = read_varint(raw, body + 1)
    offset_delta, tail = read_varint(raw, delta_at)
    end = body + length
    if not tail < end <= len(raw):
        raise BadRecords(f"a record of {length} bytes at {start}, the area has {len(raw)}")
    return start, body, delta_at, tail, end, offset_delta, timestamp_delta
