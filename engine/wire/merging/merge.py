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

from engine.wire import areas, native
from engine.wire.areas import AreaWriter, InflatedBatch, Written, inflate
from engine.wire.bounded import MAX_INFLATED_BYTES, InflateError
from engine.wire.codecs import LZ4, NONE, ZSTD, decompress
from engine.wire.encode import seal
from engine.wire.header import HEADER_BYTES, LOG_OVERHEAD_BYTES, BatchHeader, Buffer, read_header
from engine.wire.record import BadRecords
from engine.wire.reencode import Encoded
from engine.wire.slots import scan

_LENGTH = struct.Struct(">i")
_MOST_RECORDS = 0x7FFF_FFFF
_MOST_OFFSET = (1 << 63) - 1 - 0x7FFF_FFFF - 1
_FAST_CODECS = (NONE, LZ4)
_MOST_SLOW = 128
"""Most batches of other codecs in one merge: each takes 5 to 15 us to open, whichever way."""


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


def _merged(regions: Sequence[Buffer], written: Written, records: int, used: list[_SourceBatch], codec: int) -> Merged:
    """Seal the records of some batches. Raises `BadRecords` for a timestamp beyond 64 bits."""
    base_timestamp = _base_timestamp(regions, used[0])
    payload = seal(written.area, codec, records, base_timestamp, base_timestamp + written.max_delta)
    last = used[-1]
    is_last = last.end == len(regions[last.region])
    encoded = Encoded(payload, records, written.runs, last.header.next_offset)
    return Merged(encoded, len(used), last.region + is_last, 0 if is_last else last.end)


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
    try:
        return _merged(regions, writer.written(), writer.records, used, NONE) if used else None
    except BadRecords:
        return None


# --- compressed batches --------------------------------------------------------------------------------------


def _merge_compressed(
    regions: Sequence[Buffer], codec: int, max_batch_bytes: int, inflated_bytes: int
) -> Merged | None:
    """Merge batches that together, as they are, have about the size of the target batch; fewer if that is too large."""
    if native.module is not None:
        with contextlib.suppress(BadRecords):
            return _merge_areas(regions, codec, max_batch_bytes, inflated_bytes)
    return _merge_compressed_in_python(regions, codec, max_batch_bytes, inflated_bytes)


def _merge_areas(regions: Sequence[Buffer], codec: int, max_batch_bytes: int, inflated_bytes: int) -> Merged | None:
    """Raise `BadRecords` for what the C function leaves to the Python way."""
    assert native.module is not None, "asked before"
    most_batches = _MOST_RECORDS
    while most_batches > 1:
        found = native.module.merge_areas(
            regions, max_batch_bytes, inflated_bytes, most_batches, _MOST_SLOW, _decompressed
        )
        if found is None:
            raise BadRecords("a batch has something else than its header says")
        area, records, runs, next_offset, batches, region, at, base_timestamp, max_delta = found
        if batches < 2:
            return None
        payload = seal(area, codec, records, base_timestamp, base_timestamp + max_delta)
        if len(payload) <= max_batch_bytes:
            return Merged(Encoded(payload, records, runs, next_offset), batches, region, at)
        most_batches = batches // 2
    return None


def _decompressed(codec: int, data: bytes, limit_bytes: int) -> bytes | None:
    try:
        return decompress(codec, data, limit_bytes)
    except InflateError:
        return None


def _merge_compressed_in_python(
    regions: Sequence[Buffer], codec: int, max_batch_bytes: int, inflated_bytes: int
) -> Merged | None:
    used, sources = _inflated(regions, max_batch_bytes, inflated_bytes)
    while len(used) > 1:
        try:
            base_timestamp = _base_timestamp(regions, used[0])
            written = areas.write([(source, source.whole) for source in sources], base_timestamp)
            merged = _merged(regions, written, sum(source.count for source in sources), used, codec)
        except (BadRecords, InflateError):
            merged = None  # a batch has something else than its header says: it must be left out
        if merged is not None and merged.encoded is not None and len(merged.encoded.payload) <= max_batch_bytes:
            return merged
        del used[len(used) // 2 :], sources[len(sources) // 2 :]
    return None


def _inflated(
    regions: Sequence[Buffer], max_batch_bytes: int, inflated_bytes: int
) -> tuple[list[_SourceBatch], list[InflatedBatch]]:
    """Return batches of at most `max_batch_bytes` together, inflated to at most `inflated_bytes` together."""
    used: list[_SourceBatch] = []
    sources: list[InflatedBatch] = []
    size, records, slow = HEADER_BYTES, 0, 0
    for batch in _walk(regions):
        size += batch.header.size_bytes - HEADER_BYTES
        records += batch.header.record_count
        slow += batch.header.codec not in _FAST_CODECS
        if size > max_batch_bytes or records > _MOST_RECORDS or slow > _MOST_SLOW or not _may_merge(batch.header):
            break
        try:
            source = inflate(regions[batch.region], batch.at, batch.header, inflated_bytes)
        except InflateError:
            break  # broken, or too large for this merge
        inflated_bytes -= len(source.raw)
        if inflated_bytes < 0:  # a plain batch: its size has no limit
            break
        used.append(batch)
        sources.append(source)
    return used, sources
