"""Short reads of a log: batch headers of a tail, records of a small topic.

They run on the event loop that copies, and may be long (positions, blocks of the offset map, what MM2 copied). So one
answer at a time is decoded, in turns of one millisecond, and large batches are inflated in a thread.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from uuid import UUID

import msgspec

from engine.base.clock import Turns, now_s, pause
from engine.base.errors import BatchTooLarge, ConnectionLost, KafkaRefusal, MalformedBatch, OffsetGone
from engine.base.tasks import run_all
from engine.core.position.target_tail import TailBatch
from engine.flow.ports.ports import EARLIEST, LATEST, FetchAnswer, FetchOptions, PartitionFetch, Slice
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.metadata import Metadata
from engine.kafka.data.offsets import list_offsets
from engine.kafka.data.source import KafkaSourceBroker
from engine.wire.aborted import AbortedTransactions, Fate, Fates
from engine.wire.batch import BatchHeader, check_crc, control_type, split_batches
from engine.wire.bounded import MAX_INFLATED_BYTES, InflatedTooLarge, InflateError
from engine.wire.decode import raw_records
from engine.wire.records import Record, decode_records, walk_records
from policies.model import TopicPartition

_PARTITION_BYTES = 1024 * 1024
_AT_ONCE = 8
"""Partitions read in parallel: each has one answer in memory."""
NO_END = 2**63 - 1
_A_FEW = 64
"""Records that `read_log` yields at once: the consumer blocks the loop while it handles them."""
_SMALL_BYTES, _SMALL_INFLATED_BYTES = 16 * 1024, 128 * 1024
"""A batch within both limits is inflated on the loop, which is faster than a thread."""
TERMS = FetchOptions(max_wait_s=0.0, min_bytes=0, max_bytes=4 * _PARTITION_BYTES, read_committed=False)
_FIRST_BATCH = FetchOptions(max_wait_s=0.0, min_bytes=0, max_bytes=1, read_committed=False)
"""A broker answers with the whole first batch, however few bytes are asked for (KIP-74)."""
_COMMITTED = FetchOptions(max_wait_s=0.0, min_bytes=0, max_bytes=4 * _PARTITION_BYTES, read_committed=True)


_THROTTLED_S, _LEAST_S = 60.0, 0.1
"""Seconds that a broker may hold back an answer by its quota, and the least seconds before the next request."""
_WAIT_S = 2.0
"""Seconds that a broker may need to find records: those in tiered storage are in no immediate answer."""
_REMOTE_LOOKS = 5
_ONE_BATCH = FetchOptions(max_wait_s=_WAIT_S, min_bytes=1, max_bytes=1, read_committed=False)
_LOOKS = 16
"""Answers in a row to search for a record, if the log has only markers and emptied batches."""


class _ReadBatch(msgspec.Struct, frozen=True, gc=False):
    """One batch of an answer: the type of a control batch and no records, or None and its records.

    Thousands follow each other. None survives a collection of the youngest generation, so none causes a full one.
    """

    header: BatchHeader
    control: int | None
    records: tuple[Record, ...]


class _Fresh:
    """New memory for each answer: these reads are rare and short."""

    def room(self, size: int) -> memoryview:
        """Return new memory."""
        return memoryview(bytearray(size))


class Log:
    """Reads one topic's partitions. It looks up leaders once; the caller retries after a wrong leader.

    `replica`: the follower to read instead; it answers up to the high watermark that it knows (KIP-392).
    """

    def __init__(self, client: ClusterClient, metadata: Metadata, replica: int | None = None) -> None:
        self._client = client
        self._metadata = metadata
        self._replica = replica

    @classmethod
    async def of(cls, client: ClusterClient, topic: str) -> "Log":
        return cls(client, await client.recent([topic]))

    def partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, partition) for partition in sorted(self._metadata.topics[topic].partitions)]

    async def read(self, partition: TopicPartition, offset: int, options: FetchOptions) -> tuple[memoryview, Slice]:
        leader, epoch = self._metadata.leader(partition)
        ids: dict[str, UUID] = {partition.topic: self._metadata.topic_id(partition.topic)}
        wanted = PartitionFetch(partition, offset, epoch, -1, _PARTITION_BYTES)
        with self._client.believing([partition.topic]):
            if leader < 0:
                raise ConnectionLost(f"{partition} on cluster {self._client.alias!r} has no leader")
            node = leader if self._replica is None else self._replica
            connection, grantee = await self._client.beside(node, str(partition)), self._client.grantee
            broker = KafkaSourceBroker(connection, ids, lasting=False, grantee=grantee)
            answer = await self._answer(broker, wanted, options)
            found = answer.slices[0]
            fault = found.fault
            if fault is not None and fault.retry:
                raise ConnectionLost(f"{partition}: {fault.name}")
            if fault is not None and fault.out_of_range:
                raise OffsetGone(f"reading {partition} at {offset}")
        if fault is not None:
            raise KafkaRefusal(
                f"reading {partition} on cluster {self._client.alias!r} at {offset}",
                fault.code,
                fault.name,
                fault.right,
            )
        return answer.buffer, found

    async def read_some(
        self, partition: TopicPartition, offset: int, end: int, options: FetchOptions
    ) -> tuple[memoryview, Slice]:
        """Read as `read` does; ask again if the answer has nothing, although the log has more before `end`.

        A broker that does not find records in tiered storage in time answers so (Kafka: DelayedRemoteFetch). After some
        such answers the rest is taken for removed by compaction.
        """
        buffer, found = await self.read(partition, offset, options)
        for _ in range(_REMOTE_LOOKS):
            known = found.last_stable_offset if options.read_committed else found.high_watermark
            if found.start < found.end or offset >= min(end, known):
                break
            patient = msgspec.structs.replace(options, max_wait_s=_WAIT_S, min_bytes=1)
            buffer, found = await self.read(partition, offset, patient)
        return buffer, found

    async def _answer(self, broker: KafkaSourceBroker, wanted: PartitionFetch, options: FetchOptions) -> FetchAnswer:
        """Fetch, and repeat while the quota is exceeded: such an answer has no partition (KIP-219).

        Kafka: `FetchContext.getThrottledResponse`. Raises ConnectionLost if the quota stays exceeded for 60 s.
        """
        give_up_at_s = now_s() + _THROTTLED_S
        while not (answer := await broker.fetch([wanted], options, _Fresh())).slices:
            if now_s() >= give_up_at_s:
                quota = "raymirror's quota for reading is used up (consumer_byte_rate, request_percentage)"
                raise ConnectionLost(f"{wanted.partition} on cluster {self._client.alias!r}: {quota}")
            await pause(max(answer.throttle_s, _LEAST_S))
        return answer

    async def batches(
        self,
        partition: TopicPartition,
        offset: int,
        end: int,
        options: FetchOptions,
        inflated_bytes: int = MAX_INFLATED_BYTES,
    ) -> tuple[Slice, list[_ReadBatch]]:
        """Read one answer, and decode its records from `offset` up to `end`."""
        buffer, found = await self.read_some(partition, offset, end, options)
        batches: list[_ReadBatch] = []
        async with self._client.decoding:
            turns = Turns()
            for at, header in split_batches(buffer, found.start, found.end, *partition):
                if header.base_offset >= end:
                    break
                check_crc(buffer, at, header, *partition)
                control = control_type(buffer, at, header, *partition) if header.is_control else None
                records: list[Record] = []
                opened = await _opened(buffer, at, header, partition, inflated_bytes) if control is None else ()
                for record in opened:
                    if offset <= record.offset < end:
                        records.append(record)
                    await turns.rest()
                batches.append(_ReadBatch(header, control, tuple(records)))
                await turns.rest()
        return found, batches


async def _opened(
    buffer: memoryview, at: int, header: BatchHeader, partition: TopicPartition, inflated_bytes: int
) -> Iterator[Record]:
    """Inflate a batch and return its records, which are decoded one by one on demand.

    Raises MalformedBatch, BatchTooLarge.
    """
    if header.magic < 2:
        return iter(decode_records(buffer, at, header, *partition))
    return walk_records(await _inflated(buffer, at, header, partition, inflated_bytes), header, *partition)


async def _inflated(
    buffer: memoryview, at: int, header: BatchHeader, partition: TopicPartition, inflated_bytes: int
) -> bytes:
    try:
        if header.size_bytes <= _SMALL_BYTES:
            try:
                return raw_records(buffer, at, header, min(_SMALL_INFLATED_BYTES, inflated_bytes))
            except InflateError:
                pass  # too large for the loop, or broken: the next attempt shows which
        return await asyncio.to_thread(raw_records, buffer, at, header, inflated_bytes)
    except InflatedTooLarge as error:
        raise BatchTooLarge(*partition, header.base_offset, str(error)) from error
    except InflateError as error:
        raise MalformedBatch(*partition, header.base_offset, str(error)) from error


async def read_headers(client: ClusterClient, partition: TopicPartition, first: int, end: int) -> list[TailBatch]:
    """Read batch headers from offset `first` up to offset `end`, or up to the end of the log.

    The markers that were read after a transactional batch say whether it is rolled back, committed or open. For a
    single offset one batch is fetched, unless it is such a batch.
    """
    log = await Log.of(client, partition.topic)
    if end - first == 1:
        batches, needs_marker = await _headers(log, partition, first, end, _FIRST_BATCH)
        if not needs_marker:
            return batches
    return (await _headers(log, partition, first, end, TERMS))[0]


async def _headers(
    log: Log, partition: TopicPartition, first: int, end: int, terms: FetchOptions
) -> tuple[list[TailBatch], bool]:
    """Return batch headers, and whether a batch of a transaction is among them."""
    batches: list[TailBatch] = []
    fates, turns = Fates(), Turns()
    offset, needs_marker = first, False
    while offset < end:
        buffer, found = await log.read_some(partition, offset, end, terms)
        before, fates.stable = offset, found.last_stable_offset
        for at, header in split_batches(buffer, found.start, found.end, *partition):
            if header.next_offset <= offset:
                continue
            fates.note(header, control_type(buffer, at, header, *partition) if header.is_control else None)
            needs_marker = needs_marker or (header.is_transactional and not header.is_control)
            batches.append(
                TailBatch(
                    header.base_offset,
                    header.next_offset,
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    header.last_offset_delta + 1,
                    header.is_control,
                    leader_epoch=header.leader_epoch,
                )
            )
            offset = header.next_offset
            await turns.rest()
        if offset == before:
            break
    return [_judged(batch, fates.of(batch.base_offset)) for batch in batches], needs_marker


async def read_time(client: ClusterClient, partition: TopicPartition, offset: int) -> int:
    """Return the timestamp (Unix ms) of the first record from `offset` on, by its batch header; -1 if none is there.

    A broker returns at least one batch, whatever the byte limit (KIP-74).
    """
    log = await Log.of(client, partition.topic)
    options = _ONE_BATCH
    for _ in range(_LOOKS):
        buffer, found = await log.read(partition, offset, options)
        headers = [header for _, header in split_batches(buffer, found.start, found.end, *partition)]
        for header in headers:
            if header.next_offset > offset and header.record_count and not header.is_control:
                return header.first_timestamp
        if not headers or headers[-1].next_offset <= offset:
            break
        offset, options = headers[-1].next_offset, TERMS
    return -1


def _judged(batch: TailBatch, fate: Fate) -> TailBatch:
    if fate is Fate.ABORTED:
        return msgspec.structs.replace(batch, is_control=True)
    return msgspec.structs.replace(batch, is_open=True) if fate is Fate.OPEN else batch


async def read_topic(
    client: ClusterClient, topic: str, wanted: Collection[int] | None = None, since_ms: int = EARLIEST
) -> list[tuple[bytes | None, bytes | None]]:
    """Read all committed records of a small topic, or of some of its partitions, several partitions at once.

    Reads up to the high watermark, so that an open transaction of one lane hides no records of others. Raises as
    `Cluster` says. `since_ms`: begin at the first record of this time (Unix ms) or later.
    """
    return [(record.key, record.value) for record in await read_topic_records(client, topic, wanted, since_ms)]


async def read_topic_records(
    client: ClusterClient, topic: str, wanted: Collection[int] | None = None, since_ms: int = EARLIEST
) -> list[Record]:
    """Read as `read_topic` does; return records with their offsets and timestamps."""
    log = await Log.of(client, topic)
    partitions = [one for one in log.partitions(topic) if wanted is None or one.partition in wanted]
    ends: dict[TopicPartition, int] = {}
    starts: dict[TopicPartition, int] = {}

    async def ask(into: dict[TopicPartition, int], at: int) -> None:
        into.update(await list_offsets(client, partitions, at))

    await run_all(ask(ends, LATEST), ask(starts, since_ms))
    records: dict[TopicPartition, list[Record]] = {}
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def read(partition: TopicPartition) -> None:
        async with at_once:
            start, end = starts[partition], ends[partition]
            records[partition] = await _from_start(client, log, partition, start, end) if start >= 0 else []

    await run_all(*(read(partition) for partition in partitions))
    return [record for partition in partitions for record in records[partition]]


async def read_log(
    client: ClusterClient,
    partition: TopicPartition,
    first: int,
    end: int,
    *,
    committed: bool,
    inflated_bytes: int = MAX_INFLATED_BYTES,
) -> AsyncIterator[list[Record]]:
    """Yield the records from offset `first` up to `end`, a few at a time, until the log has no more.

    Raises BatchTooLarge for a batch that inflates to more than `inflated_bytes`.
    """
    log = await Log.of(client, partition.topic)
    options, offset, turns = _COMMITTED if committed else TERMS, first, Turns()
    while offset < end:
        found, batches = await log.batches(partition, offset, end, options, inflated_bytes)
        some = list[Record]()
        for batch in _readable(found, batches):
            for at in range(0, len(batch.records), _A_FEW):
                some += batch.records[at : at + _A_FEW]
                if len(some) >= _A_FEW:
                    yield some
                    some = []
                    await turns.rest()  # the time that the reader needed for them counts
        if some:
            yield some
        if not batches or batches[-1].header.next_offset <= offset:
            break
        offset = batches[-1].header.next_offset


async def read_batches(
    client: ClusterClient,
    partition: TopicPartition,
    first: int,
    end: int,
    *,
    committed: bool,
    inflated_bytes: int = MAX_INFLATED_BYTES,
) -> tuple[int, list[tuple[BatchHeader, tuple[Record, ...]]]]:
    """Read one answer of a log from offset `first` up to `end`; return the next offset, and the batches with records.

    Control batches are left out, and with `committed` also batches of aborted transactions. The offset is `first` if
    the log has nothing more. Raises as `read_log` does.
    """
    log = await Log.of(client, partition.topic)
    options = msgspec.structs.replace(_COMMITTED if committed else TERMS, max_wait_s=_WAIT_S, min_bytes=1)
    found, batches = await log.batches(partition, first, end, options, inflated_bytes)
    behind = max(first, batches[-1].header.next_offset) if batches else first
    return behind, [(batch.header, batch.records) for batch in _readable(found, batches)]


def _readable(found: Slice, batches: Iterable[_ReadBatch]) -> Iterator[_ReadBatch]:
    """Leave out control batches, and batches in the answer's list of aborted transactions (empty if uncommitted)."""
    aborted = AbortedTransactions(found.aborted)
    for batch in batches:
        if batch.control is not None:
            aborted.on_control(batch.header, batch.control)
        elif not aborted.is_aborted(batch.header):
            yield batch


async def _from_start(client: ClusterClient, log: Log, partition: TopicPartition, start: int, end: int) -> list[Record]:
    """Read a partition; if its first records are deleted during the read, start at the first remaining one."""
    while True:
        try:
            return await _read_partition(log, partition, start, end)
        except OffsetGone:
            later = (await list_offsets(client, [partition], EARLIEST))[partition]
            if later <= start:
                raise
            start = later


async def _read_partition(log: Log, partition: TopicPartition, offset: int, end: int) -> list[Record]:
    read: list[_ReadBatch] = []
    fates, turns = Fates(), Turns()
    while offset < end:
        found, batches = await log.batches(partition, offset, NO_END, TERMS)  # the markers behind `end` count
        fates.stable = found.last_stable_offset
        for batch in batches:
            fates.note(batch.header, batch.control)
        read += batches
        if not batches or batches[-1].header.next_offset <= offset:
            break
        offset = batches[-1].header.next_offset
    records: list[Record] = []
    for batch in read:
        if fates.of(batch.header.base_offset) is Fate.COMMITTED:
            records += batch.records
        await turns.rest()
    return records
