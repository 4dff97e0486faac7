"""Counts what a range of a log holds, from its batch headers: committed records, bytes, the age of the oldest."""

import msgspec

from engine.wire.aborted import Fate, Fates
from engine.wire.header import BatchHeader

NO_PRODUCER = -2
"""A producer id that no batch has: batches without a producer have -1."""


class LogContent(msgspec.Struct, frozen=True, kw_only=True):
    """The committed records between two offsets of one partition.

    `bytes`: as stored, compressed. `oldest_ms`: the earliest timestamp of a batch (Unix ms); -1: none. `gone`: offsets
    of no batch, which compaction has removed. `read_to`: where the count ended; `end`: where it should have ended.
    """

    records: int = 0
    bytes: int = 0
    oldest_ms: int = -1
    gone: int = 0
    read_to: int = 0
    end: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether all of the range was counted."""
        return self.read_to >= self.end

    @property
    def is_empty(self) -> bool:
        """Whether nothing but markers and rolled back records was written to the range."""
        return self.is_whole and not self.records and not self.gone

    def projected(self, first: int) -> "LogContent":
        """Return the content as if the range from `first` on went on as it began, if it was not counted whole."""
        seen = self.read_to - first
        if self.is_whole or seen <= 0:
            return self
        factor = (self.end - first) / seen
        return msgspec.structs.replace(self, records=round(self.records * factor), bytes=round(self.bytes * factor))


class ContentCounter:
    """Counts the batches of one range, in the order of the log; `without`: the producer id whose batches do not count.

    Records of rolled back and of open transactions do not count: no reader of committed records has seen them.
    """

    def __init__(self, first: int, end: int, without: int = NO_PRODUCER) -> None:
        self._first, self._end, self._without = first, end, without
        self._batches: list[tuple[int, int, int, int]] = []  # base offset, records, bytes, timestamp
        self._fates = Fates()
        self._gone = 0
        self.read_to = first
        self.read_bytes = 0

    def stable_to(self, offset: int) -> None:
        """Take the log's last stable offset: below it, a transaction without a marker is committed."""
        self._fates.stable = offset

    def add(self, header: BatchHeader, control: int | None) -> None:
        """Take the next batch; `control` is the type of a control batch, else None."""
        if header.next_offset <= self.read_to:
            return
        self._fates.note(header, control)
        if header.base_offset >= self._end:
            return  # only its marker counts
        begin, until = max(header.base_offset, self._first), min(header.next_offset, self._end)
        self._gone += max(0, header.base_offset - self.read_to)
        self.read_to = until
        self.read_bytes += header.size_bytes
        if control is None and header.producer_id != self._without:
            span = header.next_offset - header.base_offset
            records = min(header.record_count, until - begin)
            size_bytes = header.size_bytes * (until - begin) // span
            self._batches.append((header.base_offset, records, size_bytes, header.first_timestamp))

    def content(self, *, is_end_reached: bool) -> LogContent:
        """Return the counts; `is_end_reached`: the log has no more batches in the range, so the rest is gone."""
        committed = [one for one in self._batches if self._fates.of(one[0]) is Fate.COMMITTED]
        rest = max(0, self._end - self.read_to) if is_end_reached else 0
        return LogContent(
            records=sum(records for _, records, _, _ in committed),
            bytes=sum(size_bytes for _, _, size_bytes, _ in committed),
            oldest_ms=min((stamp for *_, stamp in committed if stamp >= 0), default=-1),
            gone=self._gone + rest,
            read_to=self._end if is_end_reached else self.read_to,
            end=self._end,
        )
