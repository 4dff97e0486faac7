"""Implements the Cluster port on a real cluster."""

from collections.abc import AsyncIterator, Awaitable, Collection, Mapping, Sequence
from uuid import UUID

from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.core.position.target_tail import TailBatch
from engine.core.reports.log_content import ContentRange, LogContent
from engine.flow.ports.ports import EARLIEST, LATEST, EpochEnd, Leader, Producer, ProducerState
from engine.kafka.admin.admin import describe_topic_configs, producer_expiries_s
from engine.kafka.admin.hidden_topics import refused_by
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.data import fencing, followers, log_content, logs, offsets
from engine.kafka.data.epochs import epoch_ends
from engine.kafka.data.source import KafkaSourceBroker
from engine.kafka.data.target import KafkaTargetBroker
from engine.kafka.protocol.requests import text_id
from engine.wire.bounded import MAX_INFLATED_BYTES
from engine.wire.record import Record
from policies.model import TopicPartition
from policies.sync.acl_sync import Operation


class KafkaCluster:
    """One real cluster behind the ports of `engine/flow`."""

    def __init__(
        self, client: ClusterClient, *, request_timeout_s: float = 30.0, inflated_bytes: int = MAX_INFLATED_BYTES
    ) -> None:
        self._client = client
        self._request_timeout_s = request_timeout_s
        self._inflated_bytes = inflated_bytes
        self._topic_ids: dict[str, UUID] = {}

    async def cluster_id(self) -> str:
        """Return the cluster's id."""
        return (await self._client.metadata([])).cluster_id

    def forget(self, topic: str) -> None:
        """Accept the new id of a topic that was created again, from the next lookup of its leaders on."""
        self._topic_ids.pop(topic, None)

    async def leaders(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Leader]:
        """Look up the leaders; fetches and appends then use the topic ids that this call found."""
        metadata = await self._client.metadata(sorted({partition.topic for partition in partitions}))
        self._client.remember(metadata)  # the next question to these leaders must use this answer
        for name, topic in metadata.topics.items():
            if topic.topic_id.int:
                self._topic_ids.setdefault(name, topic.topic_id)
        found: dict[TopicPartition, Leader] = {}
        for partition in partitions:
            described = metadata.topics.get(partition.topic)
            if described is not None and partition.partition in described.partitions:
                node, epoch = metadata.leader(partition)
                found[partition] = Leader(node, epoch, text_id(described.topic_id))
        return found

    async def survey(self, partitions: Sequence[TopicPartition], *, hurry: bool = False) -> bool:
        """Ask every broker who leads the partitions."""
        return await self._client.survey(sorted({partition.topic for partition in partitions}), hurry=hurry)

    async def unreachable(self, nodes: Collection[int], *, hurry: bool = False) -> dict[int, str]:
        """Return the brokers that cannot be reached, each with the reason."""
        return await self._client.unreachable(nodes, hurry=hurry)

    async def settled_id(self, topic: str) -> str:
        """Return the topic id on which all brokers that answer agree."""
        return text_id(await self._client.settled_id(topic))

    async def hides(self, topic: str) -> KafkaRefusal | None:
        """Return the refusal of a topic that raymirror may not see."""
        return refused_by(self._client, await self._client.metadata([topic]), topic, Operation.READ)

    def forget_topic(self, topic: str) -> None:
        """Forget the id that fetches and appends name for a topic."""
        self._topic_ids.pop(topic, None)

    async def source_broker(self, node: int, *, lasting: bool = True) -> KafkaSourceBroker:
        """Open a connection for fetching."""
        connection = await self._client.open_connection(node)
        return KafkaSourceBroker(connection, self._topic_ids, lasting=lasting, grantee=self._client.grantee)

    async def target_broker(self, node: int) -> KafkaTargetBroker:
        """Open a connection for appending."""
        connection = await self._client.open_connection(node)
        return KafkaTargetBroker(connection, self._topic_ids, self._request_timeout_s, self._client.grantee)

    async def offsets(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        """Return the offsets at a timestamp."""
        return await offsets.list_offsets(self._client, partitions, timestamp_ms)

    async def stable_ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the last stable offsets: where a reader of committed records ends now."""
        return await offsets.list_offsets(self._client, partitions, LATEST, committed=True)

    async def epoch_ends(
        self, epochs: Mapping[TopicPartition, int], led: Mapping[TopicPartition, Leader] | None = None
    ) -> dict[TopicPartition, EpochEnd]:
        """Return where the epochs end in the leaders' logs."""
        return await epoch_ends(self._client, epochs, led)

    async def acquire(self, transactional_id: str, partitions: Sequence[TopicPartition]) -> Producer:
        """Acquire the producer at a new epoch, with a barrier; unfenced if the cluster gives no transactional id."""
        return await self._acquired(transactional_id, fencing.acquire(self._client, transactional_id, partitions))

    async def enter(self, transactional_id: str) -> Producer:
        """Acquire the producer of a transactional id without a barrier; unfenced if the cluster gives none."""
        return await self._acquired(transactional_id, fencing.enter(self._client, transactional_id))

    async def _acquired(self, transactional_id: str, taking: Awaitable[Producer]) -> Producer:
        try:
            return await taking
        except KafkaRefusal as refusal:
            why = fencing.why_unfenced(refusal)
            if why:
                return await fencing.unfenced(self._client, why)
            raise
        except TimeoutError:
            raise ConnectionLost(f"transactional id {transactional_id}: not acquired in time") from None

    async def keep_alive(self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]) -> None:
        """Repeat the empty aborted transaction at the same epoch."""
        try:
            await fencing.barrier(self._client, transactional_id, producer, partitions)
        except TimeoutError:
            raise ConnectionLost(f"transactional id {transactional_id}: not kept alive in time") from None

    async def add_to_transaction(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]
    ) -> None:
        """Add partitions to the producer's transaction."""
        try:
            await fencing.add_partitions(self._client, transactional_id, producer, partitions)
        except TimeoutError:
            raise ConnectionLost(f"transactional id {transactional_id}: no transaction begun in time") from None

    async def commit(self, transactional_id: str, producer: Producer) -> None:
        """Commit the producer's transaction."""
        try:
            await fencing.end(self._client, transactional_id, producer, committing=True)
        except TimeoutError:
            raise ConnectionLost(f"transactional id {transactional_id}: not committed in time") from None

    async def producers(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, list[ProducerState]]:
        """Return the producers that the leaders of the partitions know."""
        return await offsets.describe_producers(self._client, partitions)

    async def read_headers(self, partition: TopicPartition, first: int, end: int) -> list[TailBatch]:
        """Read batch headers."""
        return await logs.read_headers(self._client, partition, first, end)

    async def read_content(self, partition: TopicPartition, wanted: ContentRange) -> LogContent:
        """Count the committed records of a range."""
        return await log_content.read_content(self._client, partition, wanted)

    async def read_time(self, partition: TopicPartition, offset: int) -> int:
        """Return the timestamp of the first record at or after an offset."""
        return await logs.read_time(self._client, partition, offset)

    async def read_records(
        self, topic: str, partitions: Collection[int] | None = None, since_ms: int = EARLIEST
    ) -> list[tuple[bytes | None, bytes | None]]:
        """Read a small topic."""
        return await logs.read_topic(self._client, topic, partitions, since_ms)

    async def read_stamped(self, topic: str, partitions: Collection[int] | None = None) -> list[Record]:
        """Read a small topic, with the timestamps."""
        return await logs.read_topic_records(self._client, topic, partitions)

    async def read_followers(self, partition: TopicPartition, first: int) -> list[Record]:
        """Read a partition from an offset on, from its followers."""
        return await followers.read_followers(self._client, partition, first)

    def read_log(
        self, partition: TopicPartition, first: int, end: int, *, committed: bool
    ) -> AsyncIterator[list[Record]]:
        """Read the records of a log from `first` up to `end`."""
        return logs.read_log(
            self._client, partition, first, end, committed=committed, inflated_bytes=self._inflated_bytes
        )

    async def producer_expiries_s(self) -> dict[int, float]:
        """Return after how many seconds each broker that answers forgets a producer; 0 if asking is not permitted."""
        return {node: expiry_s or 0.0 for node, expiry_s in (await producer_expiries_s(self._client)).items()}

    async def topic_configs(self, topics: Sequence[str], names: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the effective values of some topic configs."""
        described = await describe_topic_configs(self._client, topics, names)
        return {
            topic: {name: configs[name].value for name in names if name in configs}
            for topic, configs in described.items()
        }

    async def close(self) -> None:
        """Close every control connection."""
        await self._client.close()
