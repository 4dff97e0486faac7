"""One target partition in memory, with the rules of Kafka's idempotent producers.

As `UnifiedLog.append` and `ProducerStateManager` (Kafka 4.x): contents are validated before the producer is checked. A
batch among the last five of its producer is a duplicate and gets its first offset again. An older epoch is refused with
47, a sequence that does not follow with 45. An unknown producer may begin with any sequence. A restart keeps one batch
per producer (a snapshot holds no more).

A transactional batch is accepted only from a producer whose transaction the coordinator has announced (`takes_part`), a
plain batch only from a producer without an open transaction; otherwise the answer is 48. A marker ends the transaction.
"""

import functools
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from engine.core.position.target_tail import TailBatch
from engine.core.reports.log_content import ContentCounter, ContentRange, LogContent
from engine.flow.ports.ports import EpochEnd
from engine.wire.batch import read_header
from engine.wire.header import CONTROL_BIT, BatchHeader
from engine.wire.records import Record, decode_records
from tests.fakes.source_log import epoch_end

NONE, TOO_LARGE, INVALID_TIMESTAMP, OUT_OF_ORDER, INVALID_EPOCH, INVALID_RECORD = 0, 10, 32, 45, 47, 87
DENIED = 29
INVALID_TRANSACTION = 48
POLICY_VIOLATION = 44
SPAN = 2**31
_REMEMBERED = 5
EXPIRATION_MS = 24 * 3600 * 1000
_TODAY_MS = 2**62
FOREIGN_MS = 1_700_000_100_000
"""The timestamp of batches in `TargetLog.content`, which have none of their own."""


class Remembered(msgspec.Struct):
    """What the leader knows of one producer: its epoch and (first, last sequence, base offset) of its last batches."""

    epoch: int
    batches: deque[tuple[int, int, int]]
    last_timestamp_ms: int = -1


class Answer(NamedTuple):
    """What a broker says of one batch; `record_index` is the place of the record that is to blame, -1: of none."""

    code: int
    base: int = -1
    record_index: int = -1


class Stored(msgspec.Struct):
    """One batch in the log; `payload` is empty for markers and for foreign records."""

    header: TailBatch
    payload: bytes
    aborted: bool = False

    @property
    def is_seen(self) -> bool:
        """Whether a reader of committed records sees what is in it."""
        return bool(self.payload) and not self.aborted and not self.header.is_open


class TargetLog:
    """A partition of the target."""

    def __init__(self) -> None:
        self.batches: list[Stored] = []
        self.start = 0
        self.end = 0
        self.max_bytes = 1 << 20
        self.size_of: Callable[[bytes], int] = len
        """How large a batch is as it will be stored: another size where the topic compresses anew."""
        self.compacted = False
        self.oldest_ms = -1
        """Records with an older timestamp are refused."""
        self.refuses: Callable[[bytes], bool] = lambda _key: False
        self.policy: Callable[[bytes], bool] = lambda _key: False
        """Which keys a policy refuses: then no record of the batch is named."""
        self.denied = False
        """Whether nobody may write: a broker says so before it looks at anything else."""
        self.producers: dict[int, Remembered] = {}
        self.epochs: list[tuple[int, int]] = []
        """(leader epoch, its first offset), in order."""
        self.takes_part: set[int] = set()
        """Producers whose open transaction this partition is in."""
        self.wrote: set[int] = set()
        """Those of them that have appended in it."""

    def append(self, payload: bytes) -> Answer:
        """Append one batch."""
        if self.denied:
            return Answer(DENIED)
        header = read_header(memoryview(payload), 0)
        assert header.record_count == header.last_offset_delta + 1
        assert not header.is_control
        if self.size_of(payload) > self.max_bytes:
            return Answer(TOO_LARGE)
        if any(self.policy(record.key or b"") for record in decoded(payload)):
            return Answer(POLICY_VIOLATION)
        for index, record in enumerate(decoded(payload)):
            if (code := self._judge(record)) != NONE:
                return Answer(code, record_index=index)
        first, last = header.base_sequence, (header.base_sequence + header.last_offset_delta) % SPAN
        if header.producer_id < 0:  # of a producer that is not idempotent: nothing is known of it
            return Answer(NONE, self._store(payload, -1, -1, -1, header.record_count))
        known = self.producers.get(header.producer_id)
        if known is not None:
            if known.epoch == header.producer_epoch:
                for one_first, one_last, offset in known.batches:
                    if (one_first, one_last) == (first, last):
                        return Answer(NONE, offset)
            code = _check(known, header.producer_epoch, first)
            if code != NONE:
                return Answer(code)
        mine = header.producer_id
        if mine not in self.takes_part if header.is_transactional else mine in self.wrote:
            return Answer(INVALID_TRANSACTION)
        base = self._store(payload, header.producer_id, header.producer_epoch, first, header.record_count)
        if header.is_transactional:
            self.wrote.add(mine)
            self.batches[-1].header = msgspec.structs.replace(self.batches[-1].header, is_open=True)
        if known is None or known.epoch != header.producer_epoch:
            known = self.producers[header.producer_id] = Remembered(header.producer_epoch, deque(maxlen=_REMEMBERED))
        known.batches.append((first, last, base))
        known.last_timestamp_ms = header.max_timestamp
        return Answer(NONE, base)

    def refused_indexes(self, payload: bytes) -> tuple[int, ...]:
        """Return which records of a batch are refused: a broker names all of them (LogValidator)."""
        return tuple(index for index, record in enumerate(decoded(payload)) if self._judge(record) != NONE)

    def _judge(self, record: Record) -> int:
        if (self.compacted and record.key is None) or self.refuses(record.key or b""):
            return INVALID_RECORD
        return INVALID_TIMESTAMP if record.timestamp < self.oldest_ms else NONE

    def store_late(self, payload: bytes) -> None:
        """Append what a broker took up before it learnt that it does not lead: of an epoch that it knew then."""
        header = read_header(memoryview(payload), 0)
        first, last = header.base_sequence, (header.base_sequence + header.last_offset_delta) % SPAN
        base = self._store(payload, header.producer_id, header.producer_epoch, first, header.record_count)
        known = self.producers.setdefault(
            header.producer_id, Remembered(header.producer_epoch, deque(maxlen=_REMEMBERED))
        )
        known.batches.append((first, last, base))

    def _store(self, payload: bytes, producer_id: int, epoch: int, sequence: int, count: int) -> int:
        base, self.end = self.end, self.end + count
        header = TailBatch(base, self.end, producer_id, epoch, sequence, count, False, leader_epoch=self._leader_epoch)
        self.batches.append(Stored(header, payload))
        return base

    def marker(self, producer_id: int, epoch: int, *, committing: bool = False) -> int:
        """Write an abort or commit marker, as the coordinator does: returns 47 for an older epoch."""
        known = self.producers.get(producer_id)
        if known is not None and epoch < known.epoch:
            return INVALID_EPOCH
        if known is None or known.epoch != epoch:
            self.producers[producer_id] = Remembered(epoch, deque(maxlen=_REMEMBERED))
        self.producers[producer_id].last_timestamp_ms = _TODAY_MS  # a marker is of today, whatever the records are of
        base, self.end = self.end, self.end + 1
        header = TailBatch(base, self.end, producer_id, epoch, -1, 1, True, leader_epoch=self._leader_epoch)
        self.batches.append(Stored(header, b""))
        self.takes_part.discard(producer_id)
        self.wrote.discard(producer_id)
        for stored in self.batches:
            if stored.header.is_open and stored.header.producer_id == producer_id:
                stored.aborted = not committing
                stored.header = msgspec.structs.replace(stored.header, is_open=False, is_control=not committing)
        return NONE

    def open_since(self, producer_id: int) -> int:
        """Return where the open transaction of a producer begins, -1 without one."""
        still = (one.header for one in self.batches if one.header.is_open and one.header.producer_id == producer_id)
        return next((header.base_offset for header in still), -1)

    def foreign(self, count: int) -> tuple[int, int]:
        """Append records of somebody without a producer id: (first, last) offset."""
        base = self._store(b"", -1, -1, -1, count)
        return base, self.end - 1

    def restart(self, now_ms: int = 0) -> None:
        """Restart the broker: of each producer only the last batch stays known.

        A producer is as old as the youngest record of its last batch (or the marker behind it). One older than a day
        (`producer.id.expiration.ms`) is forgotten with its epoch, whenever it wrote; `now_ms` 0 forgets nobody.
        """
        for producer_id, known in list(self.producers.items()):
            if now_ms - known.last_timestamp_ms >= EXPIRATION_MS:
                del self.producers[producer_id]
            while len(known.batches) > 1:
                known.batches.popleft()

    def headers(self, first: int) -> list[TailBatch]:
        """Return the headers of every batch that reaches to offset `first` or behind it."""
        return [stored.header for stored in self.batches if stored.header.next_offset > first]

    @property
    def last_stable(self) -> int:
        """The offset of the first open transaction, else the end."""
        return min([self.end, *(one.header.base_offset for one in self.batches if one.header.is_open)])

    def content(self, wanted: ContentRange) -> LogContent:
        """Count what a range holds, as `Cluster.read_content` does; rolled back batches are markers here."""
        counter = ContentCounter(wanted)
        for stored in self.headers(wanted.since):
            bits = CONTROL_BIT if stored.is_control else 0
            span = stored.next_offset - stored.base_offset
            ids = stored.producer_id, stored.producer_epoch, stored.base_sequence
            header = BatchHeader(stored.base_offset, 88, 0, 2, 0, bits, span - 1, FOREIGN_MS, FOREIGN_MS, *ids, span)
            counter.add(header, 0 if stored.is_control else None)
        return counter.content(is_end_reached=True)

    def retain_from(self, offset: int) -> None:
        """Drop whole batches before `offset`, as retention does."""
        self.start = offset
        self.batches = [stored for stored in self.batches if stored.header.next_offset > offset]

    def truncate(self, offset: int) -> None:
        """Lose whole batches from `offset` on, as an unclean election does."""
        self.batches = [stored for stored in self.batches if stored.header.next_offset <= offset]
        self.epochs = [(epoch, start) for epoch, start in self.epochs if start < offset]
        self.end = offset

    @property
    def _leader_epoch(self) -> int:
        return self.epochs[-1][0] if self.epochs else -1

    def lead(self, epoch: int) -> "TargetLog":
        """Append by this leader epoch from now on; one that nothing was appended by is forgotten (KIP-101)."""
        if epoch > max((known for known, _ in self.epochs), default=-1):
            self.epochs = [(known, start) for known, start in self.epochs if start < self.end] + [(epoch, self.end)]
        return self

    def epoch_end(self, epoch: int) -> EpochEnd:
        """Return where the log ends that holds no epoch above this one."""
        return epoch_end(self.epochs, self.end, epoch)

    def at(self, timestamp_ms: int) -> int:
        """Return the offset of the first record that is as young, -1 without one."""
        for stored in self.batches:
            for record in decoded(stored.payload) if stored.payload else ():
                if record.timestamp >= timestamp_ms:
                    return stored.header.base_offset + record.offset
        return -1

    def read(self, *, committed: bool) -> Iterator[list[Record]]:
        """Give the records of each batch with its offsets in the log; `committed`: up to the last stable offset."""
        for stored in self.batches:
            if committed and stored.header.is_open:
                return
            if stored.payload and not (committed and stored.aborted):
                base = stored.header.base_offset
                yield [
                    msgspec.structs.replace(record, offset=base + record.offset) for record in decoded(stored.payload)
                ]

    def records(self) -> list[Record]:
        """Return the committed records of every batch that is neither a marker nor foreign."""
        return [record for stored in self.batches if stored.is_seen for record in decoded(stored.payload)]

    def places(self) -> dict[int, int]:
        """Return the offset of every record by its key, which is its source offset in digits."""
        return {
            int(record.key or b""): stored.header.base_offset + record.offset
            for stored in self.batches
            if stored.is_seen
            for record in decoded(stored.payload)
        }


def _check(known: Remembered, epoch: int, first: int) -> int:
    if epoch < known.epoch:
        return INVALID_EPOCH
    if epoch > known.epoch:
        return NONE if first == 0 else OUT_OF_ORDER
    expected = (known.batches[-1][1] + 1) % SPAN if known.batches else 0
    return NONE if first == expected else OUT_OF_ORDER


def decoded(payload: bytes) -> tuple[Record, ...]:
    """Return the records of one batch. Plays read the same batches again at each step, so the last ones are kept."""
    return _decoded(bytes(payload))


@functools.lru_cache(maxsize=4096)
def _decoded(payload: bytes) -> tuple[Record, ...]:
    view = memoryview(payload)
    return tuple(decode_records(view, 0, read_header(view, 0), "target", 0))
