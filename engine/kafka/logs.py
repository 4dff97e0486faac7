"""Short reads of a log: batch headers of a tail, records of a small topic."""

import asyncio
from collections.abc import AsyncIterator, Collection
from uuid import UUID

import msgspec

from engine.core.resume import TailBatch
from engine.errors import ConnectionLost, KafkaRefusal
from engine.flow.ports import EARLIEST, LATEST, FetchTerms, Slice, Wanted
from engine.kafka.cluster import ClusterClient
from engine.kafka.metadata import Metadata
from engine.kafka.offsets import list_offsets
from engine.kafka.source import KafkaSourceBroker
from engine.tasks import run_all
from engine.wire.aborted import AbortedTransactions, Fate, Fates
from engine.wire.batch import check_crc, control_type, split_batches
from engine.wire.records import Record, decode_records
from policies.model import TopicPartition

_PARTITION_BYTES = 1024 * 1024
_AT_ONCE = 8
"""Partitions read side by side: each holds one answer in memory."""
_TERMS = FetchTerms(max_wait_s=0.0, min_bytes=0, max_bytes=4 * _PARTITION_BYTES, read_committed=False)
_COMMITTED = FetchTerms(max_wait_s=0.0, min_bytes=0, max_bytes=4 * _PARTITION_BYTES, read_committed=True)


class _Fresh:
    """Room for one answer, made anew each time: these reads are rare and short."""

    def room(self, size: int) -> memoryview:
        """Return new memory."""
        return memoryview(bytearray(size))


class _Log:
    """Reads of one topic's partitions; leaders are looked up once, a wrong one is the caller's to try again."""

    def __init__(self, client: ClusterClient, metadata: Metadata) -> None:
        self._client = client
        self._metadata = metadata

    @classmethod
    async def of(cls, client: ClusterClient, topic: str) -> "_Log":
        return cls(client, await client.recent([topic]))

    def partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, partition) for partition in sorted(self._metadata.topics[topic].partitions)]

    async def read(self, partition: TopicPartition, offset: int, terms: FetchTerms) -> tuple[memoryview, Slice]:
        leader, epoch = self._metadata.leader(partition)
        ids: dict[str, UUID] = {partition.topic: self._metadata.topic_id(partition.topic)}
        wanted = Wanted(partition, offset, epoch, -1, _PARTITION_BYTES)
        with self._client.believing([partition.topic]):
            if leader < 0:
                raise ConnectionLost(f"{partition} on cluster {self._client.alias!r} has no leader")
            broker = KafkaSourceBroker(await self._client.beside(leader, str(partition)), ids, lasting=False)
            answer = await broker.fetch([wanted], terms, _Fresh())
            found = answer.slices[0]
            if found.fault is not None and found.fault.retry:
                raise ConnectionLost(f"{partition}: {found.fault.name}")
        if found.fault is not None:
            raise KafkaRefusal(f"reading {partition} at {offset}", found.fault.code, found.fault.name, "grant Read")
        return answer.buffer, found


async def read_headers(client: ClusterClient, partition: TopicPartition, first: int, end: int) -> list[TailBatch]:
    """Read batch headers from offset `first` until offset `end` is reached or the log has no more.

    Batches of transactions are told by the markers behind them, as far as was read: rolled back, committed or open.
    """
    batches: list[TailBatch] = []
    fates = Fates()
    offset = first
    log = await _Log.of(client, partition.topic)
    while offset < end:
        buffer, found = await log.read(partition, offset, _TERMS)
        before, fates.stable = offset, found.last_stable_offset
        for at, header in split_batches(buffer, found.start, found.end, *partition):
            if header.next_offset <= offset:
                continue
            fates.note(header, control_type(buffer, at, header, *partition) if header.is_control else None)
            batches.append(
                TailBatch(
                    header.base_offset,
                    header.next_offset,
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    header.last_offset_delta + 1,
                    header.is_control,
                )
            )
            offset = header.next_offset
        if offset == before:
            break
    return [_judged(batch, fates.of(batch.base_offset)) for batch in batches]


def _judged(batch: TailBatch, fate: Fate) -> TailBatch:
    if fate is Fate.ABORTED:
        return msgspec.structs.replace(batch, is_control=True)
    return msgspec.structs.replace(batch, is_open=True) if fate is Fate.OPEN else batch


async def read_topic(
    client: ClusterClient, topic: str, wanted: Collection[int] | None = None, since_ms: int = EARLIEST
) -> list[tuple[bytes | None, bytes | None]]:
    """Read all committed records of a small topic, or of some of its partitions, several partitions at once.

    To the high watermark: an open transaction of one lane hides nothing of the others. Raises as `Cluster` says.
    `since_ms`: from the first record on that is as young.
    """
    log = await _Log.of(client, topic)
    partitions = [one for one in log.partitions(topic) if wanted is None or one.partition in wanted]
    ends: dict[TopicPartition, int] = {}
    starts: dict[TopicPartition, int] = {}

    async def ask(into: dict[TopicPartition, int], at: int) -> None:
        into.update(await list_offsets(client, partitions, at))

    await run_all(ask(ends, LATEST), ask(starts, since_ms))
    records: dict[TopicPartition, list[tuple[bytes | None, bytes | None]]] = {}
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def read(partition: TopicPartition) -> None:
        async with at_once:
            start, end = starts[partition], ends[partition]
            records[partition] = await _read_partition(log, partition, start, end) if start >= 0 else []

    await run_all(*(read(partition) for partition in partitions))
    return [record for partition in partitions for record in records[partition]]


async def read_log(
    client: ClusterClient, partition: TopicPartition, first: int, end: int, *, committed: bool
) -> AsyncIterator[list[Record]]:
    """Read the records from offset `first` up to `end`, one answer at a time, until there are no more."""
    log = await _Log.of(client, partition.topic)
    async for records in _records(log, partition, first, end, _COMMITTED if committed else _TERMS):
        yield [record for record in records if record.offset < end]


async def _read_partition(
    log: _Log, partition: TopicPartition, offset: int, end: int
) -> list[tuple[bytes | None, bytes | None]]:
    batches: list[tuple[int, list[Record]]] = []
    fates = Fates()
    while offset < end:
        buffer, found = await log.read(partition, offset, _TERMS)
        before, fates.stable = offset, found.last_stable_offset
        for at, header in split_batches(buffer, found.start, found.end, *partition):
            check_crc(buffer, at, header, *partition)
            fates.note(header, control_type(buffer, at, header, *partition) if header.is_control else None)
            if not header.is_control:
                records = decode_records(buffer, at, header, *partition)
                batches.append((header.base_offset, [record for record in records if record.offset >= offset]))
            offset = max(offset, header.next_offset)
        if offset == before:
            break
    return [
        (record.key, record.value)
        for base_offset, records in batches
        if fates.of(base_offset) is Fate.COMMITTED
        for record in records
    ]


async def _records(
    log: _Log, partition: TopicPartition, offset: int, end: int, terms: FetchTerms
) -> AsyncIterator[list[Record]]:
    while offset < end:
        buffer, found = await log.read(partition, offset, terms)
        records, reached = _decoded(buffer, found, offset)
        yield records
        if reached == offset:
            break
        offset = reached


def _decoded(buffer: memoryview, found: Slice, offset: int) -> tuple[list[Record], int]:
    """Decode the records of one answer from `offset` on; return them and where the next read begins."""
    records: list[Record] = []
    aborted = AbortedTransactions(found.aborted)
    topic, partition = found.partition
    for at, header in split_batches(buffer, found.start, found.end, topic, partition):
        check_crc(buffer, at, header, topic, partition)
        if header.is_control:
            aborted.on_control(header, control_type(buffer, at, header, topic, partition))
        elif not aborted.is_aborted(header):
            records += [r for r in decode_records(buffer, at, header, topic, partition) if r.offset >= offset]
        offset = max(offset, header.next_offset)
    return records, offset


async def oldest_timestamp_ms(client: ClusterClient, topic: str) -> int | None:
    """Return the timestamp of the oldest batch of a topic, None where it is empty or its batches carry none."""
    log = await _Log.of(client, topic)
    partitions = log.partitions(topic)
    starts, ends = await list_offsets(client, partitions, EARLIEST), await list_offsets(client, partitions, LATEST)
    oldest: list[int] = []
    for partition in partitions:
        if starts[partition] < ends[partition]:
            buffer, found = await log.read(partition, starts[partition], _TERMS)
            stamps = [header.max_timestamp for _, header in split_batches(buffer, found.start, found.end, *partition)]
            oldest += [stamp for stamp in stamps[:1] if stamp >= 0]
    return min(oldest, default=None)
