"""One stage for the fake and for a real cluster: creates topics and source records; all else uses the ports."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Protocol

import msgspec
from aiokafka.errors import TopicAlreadyExistsError

from deploy.local.broker import Broker
from deploy.local.cluster import EmbeddedCluster as Embedded
from engine.base.clock import wall_ms
from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.core.lane.outcome import Outcome
from engine.flow.ports.ports import Append, Cluster, Producer, TargetBroker
from engine.kafka.gateway import KafkaCluster
from engine.wire.record import Record
from engine.wire.records import encode_batch
from policies.model import TopicPartition
from tests.fakes.cluster import FakeCluster
from tests.fakes.target_log import TargetLog
from tests.harness.admin import create_topics, delete_records, delete_topic
from tests.harness.load import Sent, produce_batch, producer

BORN_MS = 1_700_000_000_000
"""Records of a stage bear this timestamp plus their number."""

_DEADLINE_S = 180.0
_OLD_RECORDS = {"retention.ms": "-1", "segment.ms": str(2**60)}
"""So old records stay, and the marker of today behind them opens no new segment: a fetch reads one segment."""


class Stage(Protocol):
    """A cluster behind the port, with ways to set up what the port cannot."""

    port: Cluster
    name: str

    async def target(self, configs: Mapping[str, str] | None = None) -> TopicPartition:
        """Create a topic of two partitions to append to; return the first."""

    async def source(self) -> TopicPartition:
        """Create a topic of one partition to fetch from."""

    async def data(self, where: TopicPartition, count: int) -> None:
        """Append a batch at the source; the key of every record is its offset."""

    async def aborted(self, where: TopicPartition, count: int) -> None:
        """Append a batch in a transaction, and abort it."""

    async def open(self, where: TopicPartition, count: int) -> None:
        """Append a batch in a transaction that stays open."""

    async def drop_before(self, where: TopicPartition, offset: int) -> None:
        """Move the log start of a source's partition."""

    async def recreate(self, where: TopicPartition) -> None:
        """Delete the topic and create it anew."""

    async def restart(self) -> None:
        """Stop every broker cleanly and start it again."""


class FakeStage:
    """The cluster in memory."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.fake = FakeCluster("b")
        self.port: Cluster = self.fake

    async def target(self, configs: Mapping[str, str] | None = None) -> TopicPartition:
        for partition in range(2):
            _configure(self.fake.target(self.name, partition), configs or {})
        return TopicPartition(self.name, 0)

    async def source(self) -> TopicPartition:
        self.fake.source(self.name)
        return TopicPartition(self.name, 0)

    async def data(self, where: TopicPartition, count: int) -> None:
        self.fake.sources[where].data(count)

    async def aborted(self, where: TopicPartition, count: int) -> None:
        log = self.fake.sources[where]
        log.aborted_data(count, producer_id=500 + len(log.aborted))

    async def open(self, where: TopicPartition, count: int) -> None:
        self.fake.sources[where].open_data(count, producer_id=600)

    async def drop_before(self, where: TopicPartition, offset: int) -> None:
        self.fake.sources[where].start = offset

    async def recreate(self, where: TopicPartition) -> None:
        leader = self.fake.leader[where]
        if where in self.fake.sources:
            await self.source()
        else:
            await self.target()
        self.fake.leader[where] = msgspec.structs.replace(leader, topic_id=f"{leader.topic_id}-again")

    async def restart(self) -> None:
        self.fake.lose(1)
        for log in self.fake.targets.values():
            log.restart(wall_ms())


def _configure(log: TargetLog, configs: Mapping[str, str]) -> None:
    log.max_bytes = int(configs.get("max.message.bytes", log.max_bytes))
    log.compacted = configs.get("cleanup.policy") == "compact"
    if "message.timestamp.before.max.ms" in configs:
        log.oldest_ms = wall_ms() - int(configs["message.timestamp.before.max.ms"])


class RealStage:
    """An embedded cluster; records are written by aiokafka's own producer."""

    def __init__(self, name: str, cluster: Embedded, port: KafkaCluster) -> None:
        self.name = name
        self.cluster = cluster
        self.port: Cluster = port
        self.closing = AsyncExitStack()

    async def target(self, configs: Mapping[str, str] | None = None) -> TopicPartition:
        return await self._create(2, configs or {})

    async def source(self) -> TopicPartition:
        return await self._create(1, {})

    async def _create(self, partitions: int, configs: Mapping[str, str]) -> TopicPartition:
        await create_topics(self.cluster, {self.name: partitions}, configs={**_OLD_RECORDS, **configs})
        where = [TopicPartition(self.name, partition) for partition in range(partitions)]
        await _until(lambda: self._led(where))
        return where[0]

    async def _led(self, where: list[TopicPartition]) -> bool:
        return all([await self._leads(one) for one in where])

    async def _leads(self, where: TopicPartition) -> bool:
        try:
            return await self._end(where) >= 0
        except (ConnectionLost, BrokerUnreachable):
            return False  # no leader yet, or one that has not heard of it

    async def _end(self, where: TopicPartition) -> int:
        return (await self.port.offsets([where], -1))[where]

    async def _reached(self, where: TopicPartition, end: int) -> bool:
        return await self._end(where) >= end

    async def _next(self, where: TopicPartition, count: int) -> list[Sent]:
        end = await self._end(where)
        return [Sent(b"%d" % at, b"v", timestamp_ms=BORN_MS + at) for at in range(end, end + count)]

    async def data(self, where: TopicPartition, count: int) -> None:
        await produce_batch(self.cluster, *where, await self._next(where, count))

    async def aborted(self, where: TopicPartition, count: int) -> None:
        before = await self._end(where)
        async with producer(self.cluster, transactional_id=f"{self.name}-aborted") as client:
            await client.begin_transaction()
            await self._send(client, where, count)
            await client.abort_transaction()
        # EndTxn answers before the marker is written.
        await _until(lambda: self._reached(where, before + count + 1))

    async def open(self, where: TopicPartition, count: int) -> None:
        patient = {"transactional_id": f"{self.name}-open", "transaction_timeout_ms": 600_000}
        client = await self.closing.enter_async_context(producer(self.cluster, **patient))
        await client.begin_transaction()
        await self._send(client, where, count)
        self.closing.push_async_callback(client.abort_transaction)

    async def _send(self, client: Any, where: TopicPartition, count: int) -> None:
        batch = client.create_batch()
        for one in await self._next(where, count):
            batch.append(key=one.key, value=one.value, timestamp=one.timestamp_ms, headers=[])
        await (await client.send_batch(batch, where.topic, partition=where.partition))

    async def drop_before(self, where: TopicPartition, offset: int) -> None:
        await delete_records(self.cluster, where.topic, {where.partition: offset})

    async def recreate(self, where: TopicPartition) -> None:
        before = await self.port.leaders([where])
        await delete_topic(self.cluster, where.topic)
        await _until(lambda: self._created(where.topic))

        async def led_anew() -> bool:
            found = await self.port.leaders([where])
            if where not in found or found[where].topic_id == before[where].topic_id:
                return False
            return await self._leads(where)

        await _until(led_anew)

    async def restart(self) -> None:
        for broker in self.cluster.brokers:
            broker.ask_to_stop()  # and not killed when that takes long: a killed one remembers other producers
            await _until(partial(_is_gone, broker))
            await asyncio.to_thread(self.cluster.restart, broker)
        await _until(lambda: self._leads(TopicPartition(self.name, 0)))

    async def _created(self, topic: str) -> bool:
        try:
            await create_topics(self.cluster, {topic: 2})
        except TopicAlreadyExistsError:
            return False
        return True


async def _is_gone(broker: Broker) -> bool:
    return broker.pid is None


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(_DEADLINE_S):
        while not await holds():  # noqa: ASYNC110 - a broker tells nobody when it is done
            await asyncio.sleep(0.02)


def batch(
    producer: Producer,
    sequence: int,
    count: int = 2,
    *,
    keys: list[bytes | None] | None = None,
    value: bytes = b"v",
    born_ms: int = BORN_MS,
) -> bytearray:
    """Return one batch as a lane would stamp it."""
    found = keys or [b"%d" % index for index in range(count)]
    records = [Record(index, born_ms + index, key, value) for index, key in enumerate(found)]
    return encode_batch(
        records, 0, producer_id=producer.producer_id, producer_epoch=producer.epoch, base_sequence=sequence
    )


async def send(broker: TargetBroker, *appends: tuple[TopicPartition, bytearray]) -> list[Outcome]:
    """Send one request and wait for its outcomes."""
    answered: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
    broker.append([Append(where, payload) for where, payload in appends], answered.set_result)
    async with asyncio.timeout(_DEADLINE_S):
        return await answered
