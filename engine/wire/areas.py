"""Writes records of source batches as the record area of one target batch: the same bytes, other offset deltas.

Record bodies are copied unchanged. Only the length, the offset delta and the timestamp delta change, and they only if
they must: the target batch has its own base timestamp, and its offset deltas are 0, 1, 2, ... without a gap.
"""

from collections.abc import Iterator, Sequence

import msgspec

from engine.wire import native
from engine.wire.decode import raw_records
from engine.wire.encode import write_area
from engine.wire.header import BatchHeader, Buffer
from engine.wire.legacy import read_legacy_records
from engine.wire.record import BadRecords
from engine.wire.slots import Slot, scan
from engine.wire.varint import write_varint

_I64_RANGE = range(-(1 << 63), 1 << 63)
Runs = tuple[tuple[int, int], ...]
"""(index of a record in the target batch, its source offset) for the start of each run."""


class RecordSlice(msgspec.Struct, frozen=True, gc=False):
    """Some records of a source batch: `count` records in `raw[at:end]`, after the offset delta `before`."""

    at: int
    end: int
    count: int
    before: int


class InflatedBatch(msgspec.Struct, frozen=True, gc=False):
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
    def whole(self) -> RecordSlice:
        """All records."""
        return RecordSlice(0, len(self.raw), self.count, -1)

    def slots(self, part: RecordSlice) -> Iterator[Slot]:
        """Yield the slots of some records. Raises `BadRecords`."""
        return scan(self.raw, part.count, self.last_offset_delta, at=part.at, end=part.end, before=part.before)


class Written(msgspec.Struct, frozen=True, gc=False):
    """The area of some records; `next_offset` is the source offset after the last of them."""

    area: bytes | bytearray
    runs: Runs
    next_offset: int
    max_delta: int
    """The largest timestamp delta in ms."""


Part = tuple[InflatedBatch, RecordSlice]


def inflate(buffer: Buffer, at: int, header: BatchHeader, inflated_bytes: int) -> InflatedBatch:
    """Return the records of the batch at `at`. Raises `InflateError` or `BadRecords`."""
    if header.magic < 2:
        return _inflate_legacy(buffer, at, header, inflated_bytes)
    raw = raw_records(buffer, at, header, inflated_bytes)
    is_flat = header.is_log_append_time
    base_timestamp = header.max_timestamp if is_flat else header.base_timestamp
    return InflatedBatch(
        raw,
        header.record_count,
        header.last_offset_delta,
        header.base_offset,
        header.next_offset,
        base_timestamp,
        is_flat,
        header.codec,
    )


def _inflate_legacy(buffer: Buffer, at: int, header: BatchHeader, inflated_bytes: int) -> InflatedBatch:
    """Write the old records as a v2 area first; this is slow, but rare."""
    records = read_legacy_records(buffer, at, header, inflated_bytes)
    base_offset, last_offset, base_timestamp = records[0].offset, records[-1].offset, records[0].timestamp
    raw = write_area(records, [record.offset - base_offset for record in records], base_timestamp)
    next_offset = max(header.next_offset, last_offset + 1)
    last_delta = last_offset - base_offset
    return InflatedBatch(raw, len(records), last_delta, base_offset, next_offset, base_timestamp, False, header.codec)


def write(parts: Sequence[Part], base_timestamp: int) -> Written:
    """Return the area of the records of all parts, in order. Raises `BadRecords` for a part that is otherwise."""
    if native.module is not None:
        written = _write_native(parts, base_timestamp)
        if written is not None:
            return written
    writer = AreaWriter(base_timestamp)
    for source, part in parts:
        writer.add(source, part)
    return writer.written()


def _write_native(parts: Sequence[Part], base_timestamp: int) -> Written | None:
    """Return None for what the C function leaves to the Python way: wrong records, and numbers beyond 64 bits."""
    assert native.module is not None, "asked before"
    sources = [
        (
            source.raw,
            part.at,
            part.end,
            part.count,
            part.before,
            source.last_offset_delta,
            source.base_offset,
            source.base_timestamp,
            source.is_flat,
        )
        for source, part in parts
    ]
    try:
        found = native.module.write_areas(sources, base_timestamp)
    except OverflowError:
        return None
    return Written(*found) if found is not None else None


class AreaWriter:
    """An area that grows by the records of one part after the other."""

    def __init__(self, base_timestamp: int) -> None:
        self.base_timestamp = base_timestamp
        self.records = 0
        self._area = bytearray()
        self._runs: list[tuple[int, int]] = []
        self._next_offset = -1
        self._max_delta = _I64_RANGE.start

    def add(self, source: InflatedBatch, part: RecordSlice, most_bytes: int | None = None) -> bool:
        """Append all records of a part; or none, and return False, if the area would exceed `most_bytes`.

        Raises `BadRecords`, also without any change.
        """
        before = self.records, len(self._area), len(self._runs), self._next_offset, self._max_delta
        try:
            is_within = self._add(source, part, most_bytes)
        except BadRecords:
            self._go_back(*before)
            raise
        if not is_within:
            self._go_back(*before)
        return is_within

    def written(self) -> Written:
        """Return the area."""
        return Written(self._area, tuple(self._runs), self._next_offset, self._max_delta)

    def _go_back(self, records: int, size: int, runs: int, next_offset: int, max_delta: int) -> None:
        del self._area[size:], self._runs[runs:]
        self.records, self._next_offset, self._max_delta = records, next_offset, max_delta

    def _add(self, source: InflatedBatch, part: RecordSlice, most_bytes: int | None) -> bool:
        raw, out, base_offset = source.raw, self._area, source.base_offset
        shift_ms = source.base_timestamp - self.base_timestamp
        is_same_time = not shift_ms and not source.is_flat
        if shift_ms not in _I64_RANGE:
            raise BadRecords(f"base timestamps {source.base_timestamp} and {self.base_timestamp} are too far apart")
        index, next_offset, max_delta = self.records, self._next_offset, self._max_delta
        for start, body, delta_at, tail, end, offset_delta, timestamp_delta in source.slots(part):
            offset = base_offset + offset_delta
            if offset != next_offset or not index:
                self._runs.append((index, offset))
            next_offset = offset + 1
            if is_same_time and offset_delta == index:
                out += raw[start:end]
            else:
                delta = write_varint(index)
                if is_same_time:
                    stamp = raw[body + 1 : delta_at]
                else:
                    timestamp_delta = shift_ms if source.is_flat else timestamp_delta + shift_ms
                    if timestamp_delta not in _I64_RANGE:
                        raise BadRecords(f"timestamp delta {timestamp_delta} is beyond 64 bits")
                    stamp = write_varint(timestamp_delta)
                out += write_varint(1 + len(stamp) + len(delta) + end - tail)
                out += raw[body : body + 1]
                out += stamp
                out += delta
                out += raw[tail:end]
            if timestamp_delta > max_delta:
                max_delta = timestamp_delta
            index += 1
            if most_bytes is not None and len(out) > most_bytes:
                return False
        self.records, self._next_offset, self._max_delta = index, next_offset, max_delta
        return True
