"""Asks partition leaders for offsets by timestamp, and for the producers that they know."""

from collections.abc import Sequence

from aiokafka.protocol.offset import OffsetRequest

from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.base.tasks import run_all
from engine.flow.ports.ports import ProducerState
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.metadata import Metadata
from engine.kafka.protocol.faults import AUTHORIZATION, FETCH_RETRY, NONE, error_name
from engine.kafka.protocol.requests import DescribeProducers, ListOffsetsWithEpochs
from policies.model import TopicPartition
from policies.sync.acl_sync import Operation

_CLIENT = -1
Row = tuple[int, int, int]
"""What a leader says of a partition: error code, timestamp in ms, offset (-1: none)."""


async def by_leader(
    client: ClusterClient, partitions: Sequence[TopicPartition]
) -> tuple[Metadata, dict[int, dict[str, list[int]]]]:
    """Group partitions by leader and topic. Raises ConnectionLost if one has no leader."""
    metadata = await client.recent(sorted({partition.topic for partition in partitions}))
    grouped: dict[int, dict[str, list[int]]] = {}
    for partition in partitions:
        leader, _ = metadata.leader(partition)
        if leader < 0:
            raise ConnectionLost(f"{partition} on cluster {client.alias!r} has no leader")
        grouped.setdefault(leader, {}).setdefault(partition.topic, []).append(partition.partition)
    return metadata, grouped


async def list_offsets(
    client: ClusterClient, partitions: Sequence[TopicPartition], timestamp_ms: int, *, committed: bool = False
) -> dict[TopicPartition, int]:
    """Return the offset of each partition at a timestamp in ms (-2 log start, -1 high watermark).

    `committed`: -1 is the last stable offset, where the first open transaction begins. From ListOffsets v4 on, a leader
    refuses if its epoch is not the newest one that this client knows.
    """
    found: dict[TopicPartition, int] = {}

    async def ask(node: int, topics: dict[str, list[int]], metadata: Metadata) -> None:
        led = [TopicPartition(topic, number) for topic, numbers in topics.items() for number in numbers]
        answers = await ask_offsets(client, node, led, timestamp_ms, metadata, committed=committed)
        for partition, (code, offset) in answers.items():
            check_code(client, f"offsets of {partition}", code, Operation.DESCRIBE, partition.topic)
            found[partition] = offset

    with client.believing({partition.topic for partition in partitions}):
        metadata, leaders = await by_leader(client, partitions)
        await run_all(*(ask(node, topics, metadata) for node, topics in leaders.items()))
    return found


async def ask_offsets(
    client: ClusterClient,
    node: int,
    partitions: Sequence[TopicPartition],
    timestamp_ms: int,
    metadata: Metadata,
    *,
    committed: bool = False,
) -> dict[TopicPartition, tuple[int, int]]:
    """Ask one broker for offsets, as `list_offsets` does; return error code and offset of each partition.

    Raises ConnectionLost, BrokerUnreachable.
    """
    rows = await ask_rows(client, node, partitions, timestamp_ms, metadata, committed=committed)
    return {partition: (code, offset) for partition, (code, _, offset) in rows.items()}


async def ask_rows(
    client: ClusterClient,
    node: int,
    partitions: Sequence[TopicPartition],
    timestamp_ms: int,
    metadata: Metadata,
    *,
    committed: bool = False,
) -> dict[TopicPartition, Row]:
    """Ask as `ask_offsets` does; return timestamps too."""
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    connection = await client.control(node)
    if ListOffsetsWithEpochs.spoken_by(connection):
        led = [
            (topic, [(id_, metadata.leader(TopicPartition(topic, id_))[1], timestamp_ms) for id_ in ids])
            for topic, ids in topics.items()
        ]
        answer = await connection.call(ListOffsetsWithEpochs(led, committed=committed))
    else:
        wanted = [(topic, [(partition, timestamp_ms) for partition in ids]) for topic, ids in topics.items()]
        answer = await connection.call(OffsetRequest(_CLIENT, int(committed), wanted))
    return {
        TopicPartition(topic, partition): (code, timestamp, offset)
        for topic, rows in answer.topics
        for partition, code, timestamp, offset, *_epoch in rows
    }


async def describe_producers(
    client: ClusterClient, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, list[ProducerState]]:
    """Return the producers that each leader knows; none for leaders that do not know the request."""
    found: dict[TopicPartition, list[ProducerState]] = {}

    async def ask(node: int, topics: dict[str, list[int]]) -> None:
        connection = await client.control(node)
        if not DescribeProducers.spoken_by(connection):
            found.update((TopicPartition(topic, number), []) for topic, numbers in topics.items() for number in numbers)
            return
        answer = await connection.call(DescribeProducers(list(topics.items())))
        for topic, rows, _ in answer.topics:
            for partition, code, _message, producers, _ in rows:
                check_code(client, f"producers of {topic}-{partition}", code, Operation.READ, topic)
                found[TopicPartition(topic, partition)] = [
                    ProducerState(producer_id, epoch, sequence, open_since, timestamp)
                    for producer_id, epoch, sequence, timestamp, _, open_since, _ in producers
                ]

    with client.believing({partition.topic for partition in partitions}):
        _, leaders = await by_leader(client, partitions)
        await run_all(*(ask(node, topics) for node, topics in leaders.items()))
    return found


def check_code(client: ClusterClient, asked: str, code: int, operation: Operation, topic: str) -> None:
    asked = f"{asked} on cluster {client.alias!r}"
    if code in FETCH_RETRY:
        raise ConnectionLost(f"{asked}: {error_name(code)}")
    if code != NONE:
        right = client.grantee.needs_on_topic(operation, topic) if code in AUTHORIZATION else ""
        raise KafkaRefusal(asked, code, error_name(code), right)
