"""Appends chosen records to one partition in one transaction, exactly once however often it is tried.

    acquire     a new epoch of one transactional id, and a barrier: what an earlier try left open is rolled back
    committed   the batches of this producer that are there already: an earlier try has done it
    append      all records, seen by nobody who reads committed records
    commit      after whoever appends has looked at the log again; else nothing remains of it

Whoever uses it stores the producer id before the first append.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from engine.base.clock import backoff_s, pause
from engine.base.errors import ConnectionLost, MirrorError
from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.flow.lane.partition_writer import PartitionWriter
from engine.flow.ports.ports import LATEST, NO_TRANSACTIONS, Cluster, Producer
from engine.wire.batch import read_header, restamp
from engine.wire.codecs import GZIP, NONE
from engine.wire.record import Record
from engine.wire.records import encode_batch
from policies.model import TopicPartition

_TRIES = 5
_AGAIN = (OutcomeKind.RETRY, OutcomeKind.UNKNOWN)
_MOST_RECORDS, _MOST_BYTES, _PLAIN_BYTES = 500, 256 * 1024, 256
"""The size of one batch; a smaller one than the last number of bytes is not compressed."""

Ranges = tuple[tuple[int, int], ...]
"""Offsets as (first, end), ascending."""


class NotWritten(MirrorError):
    """Records could not be appended: partition, and why. Nothing of them is seen."""

    exit_code = 1

    def __init__(self, partition: str, why: str) -> None:
        super().__init__(partition, why)
        self.partition, self.why = partition, why

    def __str__(self) -> str:
        return f"{self.partition} could not be written: {self.why}"


class KeyedWriter:
    """The transactions of one transactional id on one partition."""

    def __init__(self, cluster: Cluster, transactional_id: str, partition: TopicPartition, timeout_s: float) -> None:
        self._cluster, self._id, self._partition = cluster, transactional_id, partition
        self._line = PartitionWriter(cluster, partition, timeout_s, by_name=True)
        self._producer: Producer | None = None
        self._sequence = 0

    async def acquire(self) -> int:
        """Take the producer at a new epoch, and return its id; an open transaction is rolled back.

        Raises NotWritten without transactions or the right to the id, and what the Cluster port raises.
        """
        producer = await self._cluster.acquire(self._id, [self._partition])
        if not producer.fenced:
            has_none = producer.unfenced_by == NO_TRANSACTIONS
            why = NO_TRANSACTIONS if has_none else f"grant Write and Describe on transactional id {self._id}"
            raise NotWritten(str(self._partition), why)
        self._producer, self._sequence = producer, producer.first_sequence
        return producer.producer_id

    async def end(self) -> int:
        """Return where the log ends now."""
        return (await self._cluster.offsets([self._partition], LATEST))[self._partition]

    async def committed(self, first: int, producers: Collection[int]) -> Ranges:
        """Return where the log holds committed records of these producers, from an offset on."""
        batches = await self._cluster.read_headers(self._partition, first, await self.end())
        return joined(
            (max(first, batch.base_offset), batch.next_offset)
            for batch in batches
            if batch.producer_id in producers and not batch.is_control and not batch.is_open
        )

    async def append(self, records: Sequence[Record]) -> Ranges:
        """Append records in the open transaction, or begin one; return where they lie.

        Raises NotWritten; nothing is seen of them then, and `acquire` must come before the next try.
        """
        producer = self._producer
        assert producer is not None, "call acquire first"
        await self._cluster.add_to_transaction(self._id, producer, [self._partition])
        places: list[tuple[int, int]] = []
        for some in _batches(records):
            payload = _encoded(some)
            header = read_header(payload, 0)
            restamp(payload, 0, header, producer.producer_id, producer.epoch, self._sequence, transactional=True)
            outcome = await self._send(payload)
            if outcome.kind is not OutcomeKind.APPENDED:
                raise NotWritten(str(self._partition), outcome.message or outcome.kind.value)
            self._sequence += len(some)
            places.append((outcome.base_offset, outcome.base_offset + len(some)))
        return joined(places)

    async def _send(self, payload: bytearray) -> Outcome:
        for attempt in range(1, _TRIES):
            outcome = await self._line.send(payload, self._id)
            if outcome.kind not in _AGAIN:
                return outcome
            await pause(backoff_s(attempt))
        return await self._line.send(payload, self._id)

    async def commit(self) -> None:
        """Commit. Raises ConnectionLost if nobody knows whether that was done: `committed` shows it after `acquire`."""
        producer = self._producer
        assert producer is not None, "call acquire first"
        for attempt in range(1, _TRIES):
            try:
                return await self._cluster.commit(self._id, producer)
            except ConnectionLost:
                await pause(backoff_s(attempt))
        return await self._cluster.commit(self._id, producer)

    async def close(self) -> None:
        """Close the connection; a transaction that is open is rolled back by the next `acquire`, or by its timeout."""
        await self._line.close()


def joined(places: Iterable[tuple[int, int]]) -> Ranges:
    """Join neighbours among ascending ranges."""
    found: list[tuple[int, int]] = []
    for first, end in places:
        if found and found[-1][1] == first:
            found[-1] = found[-1][0], end
        else:
            found.append((first, end))
    return tuple(found)


def _batches(records: Sequence[Record]) -> Iterator[list[Record]]:
    some: list[Record] = []
    size = 0
    for record in records:
        if some and (len(some) == _MOST_RECORDS or size + _size(record) > _MOST_BYTES):
            yield some
            some, size = [], 0
        some.append(record)
        size += _size(record)
    if some:
        yield some


def _size(record: Record) -> int:
    return (
        len(record.key or b"")
        + len(record.value or b"")
        + sum(len(key) + len(value or b"") for key, value in record.headers)
    )


def _encoded(records: Sequence[Record]) -> bytearray:
    numbered = [msgspec.structs.replace(record, offset=at) for at, record in enumerate(records)]
    return encode_batch(numbered, GZIP if sum(map(_size, records)) >= _PLAIN_BYTES else NONE)
