"""Asks one broker for a cluster's metadata: its brokers, topics with ids (KIP-516), and partition leaders."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import msgspec
from aiokafka.protocol.metadata import MetadataRequest

from engine.kafka.client.connection import Connection
from engine.kafka.protocol import metadata_codec
from engine.kafka.protocol.requests import MetadataWithEpochs
from policies.model import TopicPartition

NO_ID = UUID(int=0)


class BrokerAddress(msgspec.Struct, frozen=True):
    """Where a broker listens."""

    host: str
    port: int
    rack: str


class PartitionMeta(msgspec.Struct, frozen=True, gc=False):
    """Leader (-1 = none) and leader epoch of a partition, its replicas, and which of them are in sync."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...] = ()


class TopicMeta(msgspec.Struct, frozen=True, gc=False):
    """One topic as the cluster describes it; `error_code` is 3 if it does not exist."""

    error_code: int
    topic_id: UUID
    is_internal: bool
    partitions: dict[int, PartitionMeta]


class Metadata(msgspec.Struct, frozen=True):
    """One answer: brokers, cluster id, the requested topics."""

    cluster_id: str
    controller: int
    brokers: dict[int, BrokerAddress]
    topics: dict[str, TopicMeta]

    def leader(self, partition: TopicPartition) -> tuple[int, int]:
        """Return (leader, leader epoch) of a partition, (-1, -1) if it has none."""
        topic = self.topics.get(partition.topic)
        found = topic.partitions.get(partition.partition) if topic else None
        return (found.leader, found.leader_epoch) if found else (-1, -1)

    def topic_id(self, topic: str) -> UUID:
        """Return a topic's id, the zero id if it is not known."""
        found = self.topics.get(topic)
        return found.topic_id if found else NO_ID


async def ask_metadata(connection: Connection, topics: list[str] | None) -> Metadata:
    """Ask one broker about topics (None: all). Raises ConnectionLost."""
    for version in metadata_codec.METADATA_VERSIONS:
        if connection.supports(metadata_codec.METADATA_KEY, version):
            asked = metadata_codec.ask_topics(topics, version)
            return await connection.ask(metadata_codec.METADATA_KEY, version, True, [asked], _read)
    with_epochs = MetadataWithEpochs.spoken_by(connection)
    older = MetadataRequest(topics, allow_auto_topic_creation=False)
    answer = await connection.call(MetadataWithEpochs(topics) if with_epochs else older)
    return Metadata(
        cluster_id=answer.cluster_id or "",
        controller=answer.controller_id,
        brokers=_brokers(answer.brokers),
        topics={
            name: TopicMeta(error, NO_ID, internal, dict(map(_partition, parts)))
            for error, name, internal, parts in answer.topics
        },
    )


def _read(body: bytes) -> Metadata:
    answer = metadata_codec.read_metadata(body)
    return Metadata(
        cluster_id=answer.cluster_id,
        controller=answer.controller_id,
        brokers=_brokers(answer.brokers),
        topics={
            name: TopicMeta(error, UUID(bytes=topic_id), internal, dict(map(_partition, parts)))
            for error, name, topic_id, internal, parts in answer.topics
        },
    )


def _brokers(rows: Iterable[tuple[Any, ...]]) -> dict[int, BrokerAddress]:
    return {node: BrokerAddress(host, port, rack or "") for node, host, port, rack, *_ in rows}


def _partition(row: tuple[Any, ...]) -> tuple[int, PartitionMeta]:
    # versions from 7 on have the leader epoch after the leader; v5 has none
    if isinstance(row[3], int):
        _, partition, leader, epoch, replicas, in_sync = row[:6]
        return partition, PartitionMeta(leader, epoch, tuple(replicas), tuple(in_sync))
    _, partition, leader, replicas, in_sync = row[:5]
    return partition, PartitionMeta(leader, -1, tuple(replicas), tuple(in_sync))
