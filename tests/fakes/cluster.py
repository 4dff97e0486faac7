"""A cluster in memory behind `engine/flow/ports/ports.py`: enough of Kafka to copy from, to copy to and to fence."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence

from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal, OffsetGone
from engine.core.position.target_tail import TailBatch
from engine.core.reports.log_content import ContentRange, LogContent
from engine.flow.ports.ports import (
    NOT_AUTHORISED,
    EpochEnd,
    FetchAnswer,
    FetchFault,
    FetchOptions,
    Leader,
    PartitionFetch,
    Producer,
    ProducerState,
    Room,
    Slice,
)
from engine.kafka.data.source import fetch_fault
from engine.wire.batch import read_header
from engine.wire.record import Record
from policies.model import TopicPartition
from tests.fakes.source_log import LEADER_EPOCH, SourceLog
from tests.fakes.target_broker import FakeTargetBroker
from tests.fakes.target_log import NONE, TargetLog, decoded

EARLIEST, LATEST = -2, -1
_NOTHING: tuple[bytes, list[tuple[int, int]]] = b"", []
OUT_OF_RANGE, UNKNOWN_PARTITION, NOT_LEADER, UNKNOWN_TOPIC_ID = 1, 3, 6, 100
FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH = 74, 75


class FakeCluster:
    """One cluster; a test breaks it by setting what is public.

    `fail` is asked before every control request, with its name and its partitions, and may raise.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.sources: dict[TopicPartition, SourceLog] = {}
        self.targets: dict[TopicPartition, TargetLog] = {}
        self.leader: dict[TopicPartition, Leader] = {}
        self.down: set[int] = set()
        self.hidden: dict[str, KafkaRefusal] = {}
        """Topics that may not be seen, and how they are refused by name."""
        self.configs: dict[str, dict[str, str]] = {}
        self.transactional: dict[str, tuple[int, int]] = {}
        self.topic_ids: dict[str, str] = {}
        """The ids that fetches and appends name: those of the first look at the leaders."""
        self.transactions: dict[str, set[TopicPartition]] = {}
        """What takes part in the open transaction of an id."""
        self.expiry_s = 100 * 365 * 86_400.0
        """After how many seconds every broker forgets a producer: longer than records here are old."""
        self.fenced = True
        self.unfenced_by = NOT_AUTHORISED
        self.plain_ids = 0
        """How many producer ids were given out without a fence; each is a new one."""
        self.has_followers = False
        """Whether partitions have followers in sync that can be read."""
        self.all_answer = False
        """Whether every broker that is known answers a survey."""
        self.fault: Callable[[PartitionFetch], FetchFault | None] = lambda _wanted: None
        self.preferred: dict[TopicPartition, int] = {}
        self.fail: Callable[[str, Sequence[TopicPartition]], None] = lambda _asked, _partitions: None
        self.before: Callable[[str], object] = lambda _asked: None
        self.begun: Callable[[str], object] = lambda _asked: None
        """Called with what a copier begins: "fetch", "append", "acquire", "keep alive"."""
        self.stuck: dict[TopicPartition, asyncio.Event] = {}
        """Partitions whose barrier ends only when a test says so."""
        self.frozen: set[int] = set()
        """Brokers that take append requests and look at none of them before `thaw`."""
        self.mute: set[int] = set()
        """Brokers that append, and answer only after `thaw`."""
        self.connections: list[FakeTargetBroker] = []
        self.fetches: list[tuple[int, list[PartitionFetch]]] = []
        self.unmarked: set[TopicPartition] = set()
        """Partitions where commits leave no marker, as of a coordinator that saw no leader there."""
        self.grown = asyncio.Event()
        self.closed = False

    # --- setting up ------------------------------------------------------------------------------------------

    def source(self, topic: str, partition: int = 0, node: int = 1) -> SourceLog:
        """Add a partition to copy from."""
        where = TopicPartition(topic, partition)
        self.leader[where] = Leader(node, LEADER_EPOCH, f"id-{topic}")
        log = self.sources[where] = SourceLog()
        return log

    def target(self, topic: str, partition: int = 0, node: int = 1) -> TargetLog:
        """Add a partition to copy to."""
        where = TopicPartition(topic, partition)
        self.leader[where] = Leader(node, 0, f"id-{topic}")
        log = self.targets[where] = TargetLog()
        return log

    def grow(self) -> None:
        """Wake the fetches that wait at the end."""
        self.grown.set()
        self.grown = asyncio.Event()

    def lose(self, node: int) -> None:
        """Cut every connection for appending to a broker."""
        for connection in [one for one in self.connections if one.node == node]:
            connection.drop()

    def thaw(self, node: int) -> None:
        """Let a frozen or mute broker do what it was asked to, on connections that are gone meanwhile too."""
        self.frozen.discard(node)
        self.mute.discard(node)
        for connection in [one for one in self.connections if one.node == node]:
            connection.thaw()

    # --- the port --------------------------------------------------------------------------------------------

    async def cluster_id(self) -> str:
        return f"cluster-{self.name}"

    async def leaders(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Leader]:
        self.fail("leaders", partitions)
        found = {partition: self.leader[partition] for partition in partitions if partition in self.leader}
        for partition, leader in found.items():
            self.topic_ids.setdefault(partition.topic, leader.topic_id)
        return found

    async def survey(self, partitions: Sequence[TopicPartition], *, hurry: bool = False) -> bool:
        self.before("survey")
        return self.all_answer

    async def unreachable(self, nodes: Collection[int], *, hurry: bool = False) -> dict[int, str]:
        return {node: f"{self.name}:{node}: cannot connect: down" for node in sorted(nodes) if node in self.down}

    async def settled_id(self, topic: str) -> str:
        self.before("settled id")
        (found,) = {leader.topic_id for where, leader in self.leader.items() if where.topic == topic}
        return found

    async def hides(self, topic: str) -> KafkaRefusal | None:
        return self.hidden.get(topic)

    def forget_topic(self, topic: str) -> None:
        self.topic_ids.pop(topic, None)

    def stranger(self, partition: TopicPartition) -> int:
        """Return the error code for a partition that is not there, or not under the id that requests name."""
        leader = self.leader.get(partition)
        if leader is None:
            return UNKNOWN_PARTITION
        return NONE if self.topic_ids.get(partition.topic, leader.topic_id) == leader.topic_id else UNKNOWN_TOPIC_ID

    def out_of_date(self, want: PartitionFetch) -> int:
        """Return the error code for a fetch that knows another leader epoch (KIP-320)."""
        epoch = self.leader[want.partition].epoch
        if want.leader_epoch in (-1, epoch):
            return NONE
        return FENCED_LEADER_EPOCH if want.leader_epoch < epoch else UNKNOWN_LEADER_EPOCH

    def led(self, partition: TopicPartition) -> TargetLog:
        """Return the log of a copy, which the present leader has taken over."""
        return self.targets[partition].lead(self.leader[partition].epoch)

    def _led(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            if partition not in self.leader:
                raise ConnectionLost(f"{partition} on cluster {self.name!r} has no leader")

    def _reach(self, node: int) -> None:
        if node in self.down:
            raise BrokerUnreachable(f"{self.name}:{node}", "down")

    async def source_broker(self, node: int, *, lasting: bool = True) -> "FakeSourceBroker":
        self._reach(node)
        return FakeSourceBroker(self, node)

    async def target_broker(self, node: int) -> "FakeTargetBroker":
        self._reach(node)
        self.connections.append(FakeTargetBroker(self, node))
        return self.connections[-1]

    async def offsets(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        self.fail("offsets", partitions)
        self._led(partitions)
        found: dict[TopicPartition, int] = {}
        for partition in partitions:
            log = self.sources.get(partition) or self.targets[partition]
            known = {EARLIEST: log.start, LATEST: log.end}
            found[partition] = known[timestamp_ms] if timestamp_ms in known else log.at(timestamp_ms)
        return found

    async def stable_ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        self.fail("stable ends", partitions)
        self._led(partitions)
        return {one: (self.sources.get(one) or self.targets[one]).last_stable for one in partitions}

    async def epoch_ends(
        self, epochs: Mapping[TopicPartition, int], led: Mapping[TopicPartition, Leader] | None = None
    ) -> dict[TopicPartition, EpochEnd]:
        self.fail("epoch ends", list(epochs))
        found = [one for one in epochs if one in self.leader and (led is None or led[one] == self.leader[one])]
        logs = {one: self.sources.get(one) or self.led(one) for one in found}
        return {one: log.epoch_end(epochs[one]) for one, log in logs.items()}

    async def acquire(self, transactional_id: str, partitions: Sequence[TopicPartition]) -> Producer:
        self.begun("acquire")
        self.fail("acquire", partitions)
        for partition in partitions:
            if partition in self.stuck:
                await self.stuck[partition].wait()
        producer = await self._next_epoch(transactional_id)
        await self._mark(producer.producer_id, producer.epoch, partitions)
        self.before("acquired")
        return producer

    async def enter(self, transactional_id: str) -> Producer:
        self.begun("enter")
        self.fail("enter", [])
        producer = await self._next_epoch(transactional_id)
        self.before("entered")
        return producer

    async def _next_epoch(self, transactional_id: str) -> Producer:
        known = self.transactional.get(transactional_id)
        producer_id, epoch = (1000 + len(self.transactional), 0) if known is None else (known[0], known[1] + 1)
        if not self.fenced:
            self.plain_ids += 1
            producer_id, epoch = 2000 + self.plain_ids, 0
        self.transactional[transactional_id] = producer_id, epoch
        await self._end(transactional_id, producer_id, epoch, committing=False)
        return Producer(producer_id, epoch, self.fenced, unfenced_by="" if self.fenced else self.unfenced_by)

    async def _mark(self, producer_id: int, epoch: int, partitions: Sequence[TopicPartition]) -> None:
        await asyncio.sleep(0)
        if self.fenced:
            for partition in partitions:
                assert self.led(partition).marker(producer_id, epoch) == NONE

    async def keep_alive(self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]) -> None:
        self.begun("keep alive")
        self.fail("keep alive", partitions)
        self._is_owner(transactional_id, producer)
        await self._mark(producer.producer_id, producer.epoch, partitions)

    async def add_to_transaction(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]
    ) -> None:
        self.begun("add to transaction")
        self.fail("add to transaction", partitions)
        await asyncio.sleep(0)
        self._is_owner(transactional_id, producer)
        self.transactions.setdefault(transactional_id, set()).update(partitions)
        for partition in partitions:
            self.targets[partition].takes_part.add(producer.producer_id)

    async def commit(self, transactional_id: str, producer: Producer) -> None:
        self.begun("commit")
        self.fail("commit", [])
        self._is_owner(transactional_id, producer)
        await self._end(transactional_id, producer.producer_id, producer.epoch, committing=True)
        self.fail("committed", [])

    def _is_owner(self, transactional_id: str, producer: Producer) -> None:
        if self.transactional[transactional_id] != (producer.producer_id, producer.epoch):
            raise KafkaRefusal(f"transactional id {transactional_id}", 47, "InvalidProducerEpoch", "")

    async def _end(self, transactional_id: str, producer_id: int, epoch: int, *, committing: bool) -> None:
        await asyncio.sleep(0)
        for partition in self.transactions.pop(transactional_id, ()):
            if committing and partition in self.unmarked:
                continue
            assert self.led(partition).marker(producer_id, epoch, committing=committing) == NONE

    async def producers(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, list[ProducerState]]:
        self.fail("producers", partitions)
        self._led(partitions)
        return {partition: self._remembered(partition) for partition in partitions}

    def _remembered(self, partition: TopicPartition) -> list[ProducerState]:
        if partition in self.sources:
            return [ProducerState(one, 0, 0, first, 0) for one, first in self.sources[partition].open.items()]
        return [
            ProducerState(
                one,
                known.epoch,
                known.batches[-1][1] if known.batches else -1,
                self.targets[partition].open_since(one),
                known.last_timestamp_ms,
            )
            for one, known in self.targets[partition].producers.items()
        ]

    async def read_headers(self, partition: TopicPartition, first: int, end: int) -> list[TailBatch]:
        self.fail("read headers", [partition])
        self._led([partition])
        log = self.targets[partition]
        if first < end and not log.start <= first <= log.end:
            raise OffsetGone(f"reading {partition} at {first}")
        return [batch for batch in log.headers(first) if batch.base_offset < end]

    async def read_content(self, partition: TopicPartition, wanted: ContentRange) -> LogContent:
        self.fail("read content", [partition])
        self._led([partition])
        log = self.sources.get(partition) or self.targets[partition]
        if wanted.since < wanted.end and not log.start <= wanted.since <= log.end:
            raise OffsetGone(f"reading {partition} at {wanted.since}")
        return log.content(wanted)

    async def read_time(self, partition: TopicPartition, offset: int) -> int:
        self.fail("read time", [partition])
        self._led([partition])
        log = self.sources[partition]
        if not log.start <= offset <= log.end:
            raise OffsetGone(f"reading {partition} at {offset}")
        return next(
            (batch.born_ms + batch.base for batch in log.batches if batch.last >= offset and batch.control < 0), -1
        )

    async def read_records(
        self, topic: str, partitions: Collection[int] | None = None, since_ms: int = EARLIEST
    ) -> list[tuple[bytes | None, bytes | None]]:
        wanted = self._of(topic, partitions)
        self.fail("read records", [])
        found: list[tuple[bytes | None, bytes | None]] = []
        for one in wanted:
            records = self.targets[one].records()
            first = next((at for at, one in enumerate(records) if one.timestamp >= since_ms), len(records))
            found += [(one.key, one.value) for one in records[first:]]
        return found

    async def read_stamped(self, topic: str, partitions: Collection[int] | None = None) -> list[Record]:
        wanted = self._of(topic, partitions)
        self.fail("read records", wanted)
        return [record for one in wanted for record in self.targets[one].records()]

    def _of(self, topic: str, partitions: Collection[int] | None) -> list[TopicPartition]:
        return [
            one
            for one in sorted(self.targets)
            if one.topic == topic and (partitions is None or one.partition in partitions)
        ]

    async def read_followers(self, partition: TopicPartition, first: int) -> list[Record]:
        self.fail("read followers", [partition])
        if not self.has_followers:
            raise ConnectionLost(f"{partition}: no follower has it")
        stored = [one for one in self.targets[partition].batches if one.is_seen and one.header.base_offset >= first]
        return [record for one in stored for record in decoded(one.payload)]

    async def read_log(
        self, partition: TopicPartition, first: int, end: int, *, committed: bool
    ) -> AsyncIterator[list[Record]]:
        self.fail("read log", [partition])
        self._led([partition])
        log = self.sources.get(partition) or self.targets[partition]
        for records in log.read(committed=committed):
            yield [record for record in records if first <= record.offset < end]

    async def producer_expiries_s(self) -> dict[int, float]:
        await asyncio.sleep(0)
        return dict.fromkeys(range(10), self.expiry_s)

    async def topic_configs(self, topics: Sequence[str], names: Sequence[str]) -> dict[str, dict[str, str]]:
        self.fail("configs", [TopicPartition(topic, -1) for topic in topics])
        return {
            topic: {name: value for name, value in self.configs.get(topic, {}).items() if name in names}
            for topic in topics
        }

    async def close(self) -> None:
        self.closed = True


class FakeSourceBroker:
    """One connection for fetching."""

    is_stale = False

    def __init__(self, cluster: FakeCluster, node: int) -> None:
        self._cluster, self._node = cluster, node
        self._told: dict[TopicPartition, tuple[int, int]] = {}
        """High watermark and log start of the partitions that the last fetch asked for, as last told."""

    async def fetch(self, wanted: Sequence[PartitionFetch], options: FetchOptions, room: Room) -> FetchAnswer:
        cluster = self._cluster
        cluster.begun("fetch")
        cluster.fetches.append((self._node, list(wanted)))
        await asyncio.sleep(0)
        if self._node in cluster.down:
            raise ConnectionLost(f"{cluster.name}:{self._node}")
        found = [self._one(want, options) for want in wanted]
        if not any(payload or slice_.fault or slice_.preferred_replica >= 0 for slice_, payload in found):
            await self._wait(options.max_wait_s)
            found = [self._one(want, options) for want in wanted]
        found = self._news(found)
        body = b"".join(payload for _, payload in found)
        view = room.room(len(body))
        view[:] = body
        return FetchAnswer(view, self._place(found), 0.0)

    def _news(self, found: list[tuple[Slice, bytes]]) -> list[tuple[Slice, bytes]]:
        """Leave out what has not changed since it was told, as a broker does in a fetch session (KIP-227)."""
        told, self._told = self._told, {}
        news: list[tuple[Slice, bytes]] = []
        for one, payload in found:
            ends = one.high_watermark, one.log_start
            self._told[one.partition] = ends if one.fault is None else (-1, -1)
            if payload or one.fault or one.diverging or one.preferred_replica >= 0 or told.get(one.partition) != ends:
                news.append((one, payload))
        return news

    async def _wait(self, max_wait_s: float) -> None:
        try:
            async with asyncio.timeout(max_wait_s):
                await self._cluster.grown.wait()
        except TimeoutError:
            return

    @staticmethod
    def _place(found: list[tuple[Slice, bytes]]) -> list[Slice]:
        at = 0
        placed: list[Slice] = []
        for one, payload in found:
            placed.append(
                Slice(
                    one.partition,
                    at,
                    at + len(payload),
                    one.high_watermark,
                    one.last_stable_offset,
                    one.log_start,
                    one.aborted,
                    one.preferred_replica,
                    one.fault,
                    one.diverging,
                )
            )
            at += len(payload)
        return placed

    def _one(self, want: PartitionFetch, options: FetchOptions) -> tuple[Slice, bytes]:
        cluster = self._cluster
        fault = cluster.fault(want)
        if fault is None and (code := cluster.stranger(want.partition)) != NONE:
            fault = fetch_fault(code, want.partition.topic)
        if fault is None and (code := cluster.out_of_date(want)) != NONE:
            fault = fetch_fault(code, want.partition.topic)
        log = cluster.sources.get(want.partition)
        parted = log.parts_at(want.last_epoch, want.offset) if log is not None and want.last_epoch >= 0 else None
        if fault is None and log is not None and parted is not None:
            return Slice(want.partition, 0, 0, log.end, log.last_stable, log.start, [], diverging=parted), b""
        if fault is None and log is not None and not log.start <= want.offset <= log.end:
            fault = fetch_fault(OUT_OF_RANGE, want.partition.topic)
        if fault is not None or log is None:
            return Slice(want.partition, 0, 0, -1, -1, -1, [], -1, fault), b""
        preferred = cluster.preferred.get(want.partition, -1)
        preferred = preferred if preferred != self._node else -1
        payload, aborted = _NOTHING
        if preferred < 0:
            payload, aborted = log.fetch(want.offset, 3, committed=options.read_committed)
        return Slice(want.partition, 0, 0, log.end, log.last_stable, log.start, aborted, preferred), _cut(
            payload, want.max_bytes
        )

    async def close(self) -> None:
        return None


def _cut(payload: bytes, max_bytes: int) -> bytes:
    """Cut a record set as a broker does: wherever the limit falls, but never within the first batch."""
    if len(payload) <= max_bytes:
        return payload
    return payload[: max(max_bytes, read_header(memoryview(payload), 0).size_bytes)]
