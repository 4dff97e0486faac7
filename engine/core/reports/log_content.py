"""Counts what a range of a log holds, from its batch headers: committed records, bytes, the age of the oldest."""

import msgspec

from engine.wire.aborted import Fate, Fates
from engine.wire.header import BatchHeader


class ContentRange(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets `first` up to `end` of a log, to count; the count may stop after about `most_bytes` of them.

    `since`: the offset at or before `first` where the read begins, to see which transactions began before the range; if
    as many bytes lie between, it goes on at `first`.
    `without`: the producer ids whose batches do not count.
    """

    first: int
    end: int
    since: int
    most_bytes: int
    without: frozenset[int] = frozenset()


class LogContent(msgspec.Struct, frozen=True, kw_only=True):
    """The committed records between two offsets of one partition.

    `bytes`: as stored, compressed. `oldest_ms`: the earliest timestamp of a batch (Unix ms); -1: none. `gone`: offsets
    of no batch, which compaction has removed. `torn`: transactions with records before the range and in it.
    `read_to`: where the count ended; `end`: where it should have ended. `records_end`: the offset after the last
    committed record, which markers and rolled back records may follow; -1: not known.
    """

    records: int = 0
    bytes: int = 0
    oldest_ms: int = -1
    gone: int = 0
    torn: int = 0
    read_to: int = 0
    end: int = 0
    records_end: int = -1

    @property
    def is_whole(self) -> bool:
        """Whether all of the range was counted."""
        return self.read_to >= self.end

    @property
    def is_empty(self) -> bool:
        """Whether nothing but markers and rolled back records was written to the range."""
        return self.is_whole and not self.records and not self.gone

    def projected(self, first: int) -> "LogContent":
        """Return the content as if the range from `first` on went on as it began, if it was not counted whole.

        It has a record then at least: what was not read may have some, also behind a long transaction that was rolled
        back. Whoever asks whether a range is empty must not hear that it is.
        """
        if self.is_whole:
            return self
        seen = self.read_to - first
        factor = (self.end - first) / seen if seen > 0 else 1.0
        records, size_bytes = round(self.records * factor), round(self.bytes * factor)
        return msgspec.structs.replace(self, records=max(1, records), bytes=size_bytes)


class ContentCounter:
    """Counts the batches of one range, in the order of the log.

    Records of rolled back and of open transactions do not count: no reader of committed records has seen them.
    """

    def __init__(self, wanted: ContentRange) -> None:
        self._range = wanted
        self._batches: list[tuple[int, int, int, int, int]] = []  # base offset, records, bytes, timestamp, end
        self._fates = Fates()
        self._undecided: set[int] = set()  # producers with a transaction in the range whose marker was not read yet
        self._begun: set[int] = set()  # producers with a transaction that began before the range
        self._torn: list[int] = []  # base offsets of the first batch in the range of each such transaction
        self._gone = 0
        self.next_offset = wanted.since
        self._before_bytes = self._read_bytes = 0  # of what lies before the range, and in it or behind

    @property
    def is_done(self) -> bool:
        """Whether as many bytes were read as may be, or all of the range and every marker that decides about it."""
        is_decided = self.next_offset >= self._range.end and not self._undecided
        return is_decided or self._read_bytes >= self._range.most_bytes

    def stable_to(self, offset: int) -> None:
        """Take the log's last stable offset: below it, a transaction without a marker is committed."""
        self._fates.stable = offset

    def add(self, header: BatchHeader, control: int | None) -> None:
        """Take the next batch; `control` is the type of a control batch, else None."""
        if header.next_offset <= self.next_offset:
            return
        self._fates.note(header, control)
        self._gone += max(0, min(header.base_offset, self._range.end) - max(self.next_offset, self._range.first))
        self.next_offset = header.next_offset
        if control is not None:
            self._undecided.discard(header.producer_id)
            self._begun.discard(header.producer_id)
        if control is None and header.base_offset < self._range.end:
            self._count(header)
        self._note_bytes(header)

    def _note_bytes(self, header: BatchHeader) -> None:
        if header.next_offset > self._range.first:
            self._read_bytes += header.size_bytes
            return
        self._before_bytes += header.size_bytes
        if self._before_bytes >= self._range.most_bytes and self.next_offset < self._range.first:
            self.next_offset = self._range.first
            self._begun.clear()  # their markers may lie in what is not read
            self._undecided.clear()

    def _count(self, header: BatchHeader) -> None:
        begin, until = max(header.base_offset, self._range.first), min(header.next_offset, self._range.end)
        if header.is_transactional:
            self._note_transaction(header)
        if begin < until and header.producer_id not in self._range.without:
            span = header.next_offset - header.base_offset
            records = min(header.record_count, until - begin)
            size_bytes = header.size_bytes * (until - begin) // span
            self._batches.append((header.base_offset, records, size_bytes, header.first_timestamp, until))

    def _note_transaction(self, header: BatchHeader) -> None:
        if header.next_offset <= self._range.first:
            self._begun.add(header.producer_id)
        elif header.base_offset < self._range.first or header.producer_id in self._begun:
            self._begun.discard(header.producer_id)
            self._torn.append(header.base_offset)
        self._undecided.add(header.producer_id)

    def content(self, *, is_end_reached: bool) -> LogContent:
        """Return the counts; `is_end_reached`: the log has no more batches in the range, so the rest is gone."""
        committed = [one for one in self._batches if self._is_committed(one[0])]
        read_to = min(max(self.next_offset, self._range.first), self._range.end)
        is_whole = is_end_reached or read_to >= self._range.end
        return LogContent(
            records=sum(records for _, records, *_ in committed),
            bytes=sum(size_bytes for _, _, size_bytes, *_ in committed),
            oldest_ms=min((stamp for *_, stamp, _ in committed if stamp >= 0), default=-1),
            gone=self._gone + (self._range.end - read_to if is_end_reached else 0),
            torn=sum(map(self._is_committed, self._torn)),
            read_to=self._range.end if is_end_reached else read_to,
            end=self._range.end,
            records_end=max((until for *_, until in committed), default=-1) if is_whole else -1,
        )

    def _is_committed(self, base_offset: int) -> bool:
        return self._fates.of(base_offset) is Fate.COMMITTED
