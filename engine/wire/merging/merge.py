"""Merges consecutive batches of one partition into one batch, with the same records.

Every record keeps its timestamp, key, value and headers, and its place in the order; offset deltas are 0, 1, 2, ..., so
a record has the same producer sequence as if its batch had passed alone. As after a restamp, the merged batch is in no
transaction, has no delete horizon and create time. The timestamps of a source batch with log-append time become create
times, as `reencode` does it. Control batches are not merged, and no batch whose records are not as its header says.

**Codec.** Plain batches are merged with plain ones. A compressed batch may be merged with batches of every codec, and
the merged batch has the codec that the caller names (`BatchStretch.codec`): producers such as librdkafka send a batch
plain if compression would not make it smaller, so plain batches stand between compressed ones.

**Base timestamp**: that of the first source batch, or of its first record if the batch has a delete horizon there.
"""

import contextlib
import struct
from collections.abc import Iterator, Sequence

import msgspec

from engine.wire import native
from engine.wire.areas import AreaWriter, Runs, inflate
from engine.wire.bounded import MAX_INFLATED_BYTES, InflateError
from engine.wire.codecs import NONE, ZSTD, decompress
from engine.wire.encode import seal
from engine.wire.header import HEADER_BYTES, LOG_OVERHEAD_BYTES, BatchHeader, Buffer, read_header
from engine.wire.record import BadRecords
from engine.wire.reencode import Encoded
from engine.wire.slots import scan

_LENGTH = struct.Struct(">i")
_MOST_RECORDS = 0x7FFF_FFFF
_MOST_OFFSET = (1 << 63) - 1 - 0x7FFF_FFFF - 1
_OPENING = (0, 4, 1, 0, 8)
"""What it costs to open a batch, by codec, in about 2 us. LZ4 is opened in C; without the native module, the policy
lets so few of its batches merge that it needs no other limit."""
_MOST_OPENING = 512
"""The most that opening the batches of one merge may cost: about a millisecond."""


class Merged(msgspec.Struct, frozen=True):
    """The result of a merge: `batches` source batches were used, up to index `at` of the region number `region`.

    Without `encoded`, the first batch is to be sent as it is: nothing follows it, or it cannot be merged with what
    follows. `encoded.runs` has source offsets as the batches' headers have them.
    """

    encoded: Encoded | None
    batches: int
    region: int
    at: int


class _SourceBatch(msgspec.Struct, frozen=True, gc=False):
    """A batch in a region."""

    header: BatchHeader
    region: int
    at: int

    @property
    def end(self) -> int:
        return self.at + self.header.size_bytes


def merge(
    regions: Sequence[Buffer], *, codec: int, max_batch_bytes: int, inflated_bytes: int = MAX_INFLATED_BYTES
) -> Merged:
    """Merge the first batches of some regions into one of at most `max_batch_bytes`, as many whole batches as fit.

    Each region has one or more whole v2 batches, which passed a check of their CRC. `inflated_bytes`: the most bytes
    that compressed ones may decompress to, together. Raises ValueError if the first region does not begin with a whole
    batch.
    """
    if codec == NONE:
        found = _merge_plain(regions, max_batch_bytes)
    else:
        found = _merge_compressed(regions, codec, max_batch_bytes, inflated_bytes)
    if found is not None and found.batches > 1:
        return found
    first = next(_walk(regions), None)
    if first is None:
        raise ValueError("no whole batch to merge")
    is_last = first.end == len(regions[0])
    return Merged(None, 1, int(is_last), 0 if is_last else first.end)


def _walk(regions: Sequence[Buffer]) -> Iterator[_SourceBatch]:
    """Yield the batches up to the first that is not a whole v2 batch."""
    for region, buffer in enumerate(regions):
        at = 0
        while at < len(buffer):
            if len(buffer) - at < HEADER_BYTES:
                return
            (length,) = _LENGTH.unpack_from(buffer, at + 8)
            if not HEADER_BYTES <= LOG_OVERHEAD_BYTES + length <= len(buffer) - at:
                return
            header = read_header(buffer, at)
            if header.magic != 2:
                return
            yield _SourceBatch(header, region, at)
            at += header.size_bytes


def _may_merge(header: BatchHeader) -> bool:
    in_range = 0 <= header.base_offset <= _MOST_OFFSET
    return header.codec <= ZSTD and header.record_count > 0 and in_range and not header.is_control


def _place(regions: Sequence[Buffer], used: Sequence[_SourceBatch]) -> tuple[int, int]:
    """Return the region, and the index in it, after the batches that were used."""
    if not used:
        return 0, 0
    last = used[-1]
    is_last = last.end == len(regions[last.region])
    return last.region + is_last, 0 if is_last else last.end


def _base_timestamp(regions: Sequence[Buffer], first: _SourceBatch) -> int:
    header = first.header
    if header.is_log_append_time:
        return header.max_timestamp
    if not header.has_delete_horizon:
        return header.base_timestamp
    source = inflate(regions[first.region], first.at, header, MAX_INFLATED_BYTES)
    return header.base_timestamp + next(scan(source.raw, source.count, source.last_offset_delta))[6]


# --- plain batches -------------------------------------------------------------------------------------------


def _merge_plain(regions: Sequence[Buffer], max_batch_bytes: int) -> Merged | None:
    if native.module is None:
        return _merge_plain_in_python(regions, max_batch_bytes)
    try:
        payload, records, runs, next_offset, batches, region, at = native.module.merge(regions, max_batch_bytes)
    except OverflowError:  # a timestamp beyond 64 bits
        return None
    return None if payload is None else Merged(Encoded(payload, records, runs, next_offset), batches, region, at)


def _merge_plain_in_python(regions: Sequence[Buffer], max_batch_bytes: int) -> Merged | None:
    used: list[_SourceBatch] = []
    writer = AreaWriter(0)
    most_bytes = max_batch_bytes - HEADER_BYTES
    try:
        for batch in _walk(regions):
            header = batch.header
            if header.codec != NONE or not _may_merge(header) or writer.records + header.record_count > _MOST_RECORDS:
                break
            if not used:
                writer.base_timestamp = _base_timestamp(regions, batch)
            source = inflate(regions[batch.region], batch.at, header, MAX_INFLATED_BYTES)
            if not writer.add(source, source.whole, most_bytes):
                break
            used.append(batch)
    except BadRecords:
        pass  # the batch is no part of this merge; it passes alone, and the target judges it
    if not used:
        return None
    written = writer.written()
    try:
        newest = writer.base_timestamp + written.max_delta
        payload = seal(written.area, NONE, writer.records, writer.base_timestamp, newest)
    except BadRecords:  # a timestamp beyond 64 bits
        return None
    encoded = Encoded(payload, writer.records, written.runs, used[-1].header.next_offset)
    return Merged(encoded, len(used), *_place(regions, used))


# --- compressed batches --------------------------------------------------------------------------------------


def _merge_compressed(
    regions: Sequence[Buffer], codec: int, max_batch_bytes: int, inflated_bytes: int
) -> Merged | None:
    """Merge batches that together, as they are, have about the size of the target batch; fewer if that is too large."""
    most_batches = _MOST_RECORDS
    while most_batches > 1:
        bounds = max_batch_bytes, inflated_bytes, most_batches, _MOST_OPENING
        if native.module is not None:
            found = _Area(*native.module.merge_areas(regions, *bounds, _decompressed))
        else:
            found = _area_in_python(regions, *bounds)
        if found.batches < 2:
            return None
        with contextlib.suppress(BadRecords):  # a timestamp beyond 64 bits
            payload = seal(
                found.area, codec, found.records, found.base_timestamp, found.base_timestamp + found.max_delta
            )
            if len(payload) <= max_batch_bytes:
                encoded = Encoded(payload, found.records, found.runs, found.next_offset)
                return Merged(encoded, found.batches, found.region, found.at)
        most_batches = found.batches // 2
    return None


class _Area(msgspec.Struct, frozen=True):
    """The records of some batches, as one target batch has them; `batches`, `region` and `at` as in `Merged`."""

    area: bytes | bytearray
    records: int
    runs: Runs
    next_offset: int
    batches: int
    region: int
    at: int
    base_timestamp: int
    max_delta: int


def _decompressed(codec: int, data: bytes, limit_bytes: int) -> bytes | None:
    try:
        return decompress(codec, data, limit_bytes)
    except InflateError:
        return None


def _area_in_python(
    regions: Sequence[Buffer], max_batch_bytes: int, inflated_bytes: int, most_batches: int, most_opening: int
) -> _Area:
    """Write batches of at most `max_batch_bytes` together, as they are, and `inflated_bytes` together, inflated."""
    writer, used = AreaWriter(0), list[_SourceBatch]()
    size, opening = HEADER_BYTES, 0
    try:
        for batch in _walk(regions):
            header = batch.header
            if not _may_merge(header) or writer.records + header.record_count > _MOST_RECORDS:
                break
            size += header.size_bytes - HEADER_BYTES
            opening += _OPENING[header.codec]
            if size > max_batch_bytes or opening > most_opening or len(used) == most_batches:
                break
            source = inflate(regions[batch.region], batch.at, header, inflated_bytes)
            inflated_bytes -= len(source.raw)
            if inflated_bytes < 0:  # a plain batch: its size has no limit
                break
            if not used:
                writer.base_timestamp = _base_timestamp(regions, batch)
            writer.add(source, source.whole)
            used.append(batch)
    except (BadRecords, InflateError):
        pass  # broken, or too large for this merge: the batch is no part of it
    written, (region, at) = writer.written(), _place(regions, used)
    next_offset = used[-1].header.next_offset if used else -1
    return _Area(
        *(written.area, writer.records, written.runs, next_offset, len(used), region, at),
        *(writer.base_timestamp, written.max_delta),
    )
