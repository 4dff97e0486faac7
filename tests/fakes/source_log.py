"""One source partition in memory: batches with holes, markers, aborted and emptied batches, as real bytes.

The key of every record is its source offset in digits.
"""

import struct
from collections.abc import Iterator
from functools import lru_cache

import msgspec
from crc32c import crc32c

from engine.core.reports.log_content import ContentCounter, ContentRange, LogContent
from engine.flow.ports.ports import EpochEnd
from engine.wire.batch import read_header
from engine.wire.decode import decode_records
from engine.wire.encode import seal, write_area
from engine.wire.record import Record

TRANSACTIONAL, CONTROL = 0x10, 0x20
ABORT, COMMIT = 0, 1
LEADER_EPOCH = 4
BORN_MS = 1_700_000_000_000
"""Timestamp of a record at offset 0; later offsets are so many milliseconds younger."""


class SourceBatch(msgspec.Struct):
    """One batch: offsets base to `last`, of which `offsets` still have a record.

    `more`: offsets whose record only a replica with a late cleaner still has. `cleaned`: the leader's cleaner took the
    whole batch with its header.
    """

    base: int
    last: int
    offsets: tuple[int, ...]
    producer_id: int = -1
    bits: int = 0
    control: int = -1
    epoch: int = LEADER_EPOCH
    born_ms: int = BORN_MS
    more: tuple[int, ...] = ()
    cleaned: bool = False

    def encode(self, *, late: bool = False) -> bytes:
        """Return the batch as it stands in the log of the leader, or of the replica with a late cleaner."""
        identity = self.producer_id, self.bits, self.control, self.epoch
        offsets = tuple(sorted((*self.offsets, *self.more))) if late else self.offsets
        return _encode(self.base, self.last, offsets, self.born_ms, *identity)


@lru_cache(maxsize=20_000)
def _encode(
    base: int, last: int, offsets: tuple[int, ...], born_ms: int, producer_id: int, bits: int, control: int, epoch: int
) -> bytes:
    if control >= 0:
        records = [Record(base, born_ms, struct.pack(">hh", 0, control), bytes(6))]
    else:
        records = [Record(offset, born_ms + offset, b"%d" % offset, b"v" * (offset % 7)) for offset in offsets]
    area = write_area(records, [record.offset - base for record in records], born_ms + base)
    batch = seal(area, 0, len(records), born_ms + base, born_ms + last, (producer_id, 0, 0 if producer_id >= 0 else -1))
    struct.pack_into(">q", batch, 0, base)
    struct.pack_into(">i", batch, 12, epoch)
    struct.pack_into(">hi", batch, 21, bits, last - base)
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return bytes(batch)


def epoch_end(epochs: list[tuple[int, int]], log_end: int, epoch: int) -> EpochEnd:
    """Return where a log ends that holds no epoch above this one (LeaderEpochFileCache.endOffsetFor).

    `epochs`: (leader epoch, its first offset), in order.
    """
    if epoch > epochs[-1][0]:
        return EpochEnd(-1, -1)
    end = next((start for one, start in epochs if one > epoch), log_end)
    return EpochEnd(max((one for one, _ in epochs if one <= epoch), default=epoch), end)


class SourceLog:
    """A partition of the source, as its leader has it and as a replica has it whose cleaner is late."""

    def __init__(self) -> None:
        self.batches: list[SourceBatch] = []
        self.aborted: list[tuple[int, int, int]] = []
        """(producer id, first offset, offset of the abort marker)."""
        self.open: dict[int, int] = {}
        """First offset of every open transaction, by producer id."""
        self.epochs: list[tuple[int, int]] = [(LEADER_EPOCH, 0)]
        """(leader epoch, its first offset), in order."""
        self.start = 0
        self.end = 0
        self.born_ms = BORN_MS
        """When the batches that come next were born."""

    # --- writing ---------------------------------------------------------------------------------------------

    def data(self, count: int, *, holes: frozenset[int] = frozenset(), producer_id: int = -1) -> None:
        """Append a batch of `count` offsets; `holes` are indexes whose record compaction has taken."""
        offsets = tuple(self.end + index for index in range(count) if index not in holes)
        bits = TRANSACTIONAL if producer_id >= 0 else 0
        epoch = self.epochs[-1][0]
        batch = SourceBatch(
            self.end, self.end + count - 1, offsets, producer_id, bits, epoch=epoch, born_ms=self.born_ms
        )
        self.batches.append(batch)
        self.end += count

    def marker(self, producer_id: int, control: int) -> None:
        """Append a transaction marker."""
        bits, epoch = TRANSACTIONAL | CONTROL, self.epochs[-1][0]
        self.batches.append(SourceBatch(self.end, self.end, (self.end,), producer_id, bits, control, epoch))
        self.end += 1

    def aborted_data(self, count: int, producer_id: int) -> None:
        """Append a transaction of one batch that is rolled back."""
        first = self.end
        self.data(count, producer_id=producer_id)
        self.marker(producer_id, ABORT)
        self.aborted.append((producer_id, first, self.end - 1))

    def open_data(self, count: int, producer_id: int) -> None:
        """Append a batch of a transaction that stays open."""
        self.open.setdefault(producer_id, self.end)
        self.data(count, producer_id=producer_id)

    def vanish(self, count: int) -> None:
        """Leave a hole of whole offsets, as when the cleaner takes a batch with its header."""
        self.end += count

    def compact(self, offset: int) -> None:
        """Take one record away from the leader, leaving its batch's header as it is."""
        for batch in self.batches:
            if offset in batch.offsets and batch.control < 0:
                batch.offsets = tuple(one for one in batch.offsets if one != offset)
                batch.more += (offset,)

    def clean(self, offset: int) -> None:
        """Take the batch that holds an offset away from the leader, unless it is the last one."""
        for batch in self.batches[:-1]:
            if batch.base <= offset <= batch.last and batch.control < 0:
                batch.more += batch.offsets
                batch.offsets, batch.cleaned = (), True

    def catch_up(self) -> None:
        """Let the late cleaner come as far as the leader's."""
        self.batches = [batch for batch in self.batches if not batch.cleaned]
        for batch in self.batches:
            batch.more = ()

    def lead_anew(self) -> None:
        """Elect a leader: a new epoch begins at the end."""
        self.epochs.append((self.epochs[-1][0] + 1, self.end))

    def truncate(self, end: int) -> None:
        """Lose the batches from an offset on, as when a replica leads that had not heard of them."""
        self.batches = [batch for batch in self.batches if batch.base < end]
        self.end = end
        last = self.epochs[-1][0]
        self.epochs = [(epoch, start) for epoch, start in self.epochs if start < end] + [(last + 1, end)]

    # --- reading ---------------------------------------------------------------------------------------------

    def wanted(self, *, late: bool = False) -> list[int]:
        """Return the offsets of every committed record that is there now, on all replicas or on the late one."""
        return [
            offset
            for batch in self.batches
            if batch.control < 0 and not self._is_aborted(batch)
            for offset in (*batch.offsets, *(batch.more if late else ()))
        ]

    def _is_aborted(self, batch: SourceBatch) -> bool:
        return any(
            batch.producer_id == producer_id and first <= batch.base < marker
            for producer_id, first, marker in self.aborted
        )

    @property
    def last_stable(self) -> int:
        """The offset of the first open transaction, else the end."""
        return min([self.end, *self.open.values()])

    def parts_at(self, epoch: int, offset: int) -> tuple[int, int] | None:
        """Return (epoch, end) where the log parts from one that was fetched to `offset` and `epoch`, if it does."""
        latest = self.epochs[-1][0]
        found = max([one for one, _ in self.epochs if one <= epoch], default=epoch)
        end = self.end if epoch >= latest else next(start for one, start in self.epochs if one > epoch)
        return (found, end) if found < epoch or end < offset else None

    def epoch_end(self, epoch: int) -> EpochEnd:
        """Return where the log ends that holds no epoch above this one."""
        return epoch_end(self.epochs, self.end, epoch)

    def content(self, wanted: ContentRange) -> LogContent:
        """Count what a range holds, as `Cluster.read_content` does, a batch at a time."""
        counter = ContentCounter(wanted)
        counter.stable_to(self.last_stable)
        for batch in self.batches:
            if counter.is_done:
                return counter.content(is_end_reached=False)
            if not batch.cleaned:
                control = batch.control if batch.control >= 0 else None
                counter.add(read_header(memoryview(batch.encode()), 0), control)
        return counter.content(is_end_reached=not counter.is_done)

    def at(self, timestamp_ms: int) -> int:
        """Return the offset of the first record that is as young, -1 without one; markers have no time here."""
        offsets = ((batch.born_ms, offset) for batch in self.batches if batch.control < 0 for offset in batch.offsets)
        return next((offset for born_ms, offset in offsets if born_ms + offset >= timestamp_ms), -1)

    def read(self, *, committed: bool) -> Iterator[list[Record]]:
        """Give the records of each batch of data that is there now."""
        limit = self.last_stable if committed else self.end
        for batch in self.batches:
            if batch.control < 0 and batch.last < limit and not (committed and self._is_aborted(batch)):
                payload = memoryview(bytearray(batch.encode()))
                yield decode_records(payload, 0, read_header(payload, 0), "source", 0)

    def fetch(
        self, offset: int, batches: int, *, committed: bool = True, late: bool = False
    ) -> tuple[bytes, list[tuple[int, int]]]:
        """Return up to `batches` whole batches from the one that holds `offset`, and the aborted list.

        The list reaches to the end of the log, as a broker's does for a short log: it finds the end of the fetched
        range by its sparse offset index only.
        """
        limit = self.last_stable if committed else self.end
        held = (batch for batch in self.batches if late or not batch.cleaned)
        found = [batch for batch in held if offset <= batch.last < limit][:batches]
        aborted = [(producer_id, first) for producer_id, first, marker in self.aborted if marker >= offset]
        return b"".join(batch.encode(late=late) for batch in found), aborted if committed and found else []
