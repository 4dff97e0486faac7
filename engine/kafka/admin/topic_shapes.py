"""Reads how many partitions and replicas topics have, with its own parser of Metadata v12 (brokers from 3.1 on).

It skips the rest of the metadata. aiokafka's classes would create an object for every field of every partition.
"""

from collections.abc import Sequence

import msgspec

from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.metadata import Metadata
from engine.kafka.protocol.group_codec import read_text, skip_tags
from engine.kafka.protocol.metadata_codec import (
    ID_BYTES,
    METADATA_KEY,
    NODE_BYTES,
    OPERATIONS_BYTES,
    ask_topics,
    read_head,
    read_size,
)

METADATA = (METADATA_KEY, 12)
"""API key and version of the request."""
_TIMEOUT_S = 60.0
_ONE_BYTE = 0x7F
"""The highest varint of one byte."""
_ERROR_BYTES, _BEFORE_REPLICAS = 2, 14
"""Bytes of a topic's error; of a partition's error, number, leader and epoch."""


class TopicShape(msgspec.Struct, frozen=True):
    """One topic: its partitions, the replicas of the partition with the fewest, and whether it is Kafka's own."""

    partitions: int
    replicas: int
    is_internal: bool


async def topic_shapes(client: ClusterClient, names: Sequence[str] | None) -> dict[str, TopicShape]:
    """Return the topics in `names` that exist (None: all). Raises ConnectionLost, BrokerUnreachable."""
    connection = await client.any_connection()
    if not connection.supports(*METADATA):
        return _shapes(await client.metadata(None if names is None else list(names)))
    return await connection.ask(*METADATA, True, [ask_topics(names, METADATA[1])], read_shapes, _TIMEOUT_S)


def _shapes(metadata: Metadata) -> dict[str, TopicShape]:
    return {
        name: TopicShape(len(one.partitions), min(len(p.replicas) for p in one.partitions.values()), one.is_internal)
        for name, one in metadata.topics.items()
        if one.partitions
    }


def read_shapes(body: bytes) -> dict[str, TopicShape]:
    """Decode the topics of an answer that have partitions. Raises IndexError or struct.error if it is cut short."""
    *_, at = read_head(body)
    topics, at = read_size(body, at)
    found: dict[str, TopicShape] = {}
    for _ in range(topics):
        name, at = read_text(body, at + _ERROR_BYTES)
        at += ID_BYTES
        is_internal = bool(body[at])
        partitions, at = read_size(body, at + 1)
        fewest, at = _partitions(body, at, partitions)
        at = skip_tags(body, at + OPERATIONS_BYTES)
        if partitions:
            found[name] = TopicShape(partitions, fewest, is_internal)
    return found


def _partitions(body: bytes, at: int, count: int) -> tuple[int, int]:
    """Return the fewest replicas of any of `count` partitions, and where the partitions end."""
    if count and (alike := _alike(body, at, count)):
        return alike
    fewest = 0
    for number in range(count):
        replicas, at = _skip_nodes(body, at + _BEFORE_REPLICAS)
        for _ in ("in sync", "offline"):
            _, at = _skip_nodes(body, at)
        at = at + 1 if not body[at] else skip_tags(body, at)
        if not number or replicas < fewest:
            fewest = replicas
    return fewest, at


def _skip_nodes(body: bytes, at: int) -> tuple[int, int]:
    """Return how many brokers a list has, and where it ends."""
    nodes, at = read_size(body, at)
    return nodes, at + nodes * NODE_BYTES


def _alike(body: bytes, at: int, count: int) -> tuple[int, int] | None:
    """Return the same for all partitions at once if all have the first one's layout, as is usual; else None.

    All have it if each partition has the first one's four counts at the places where that layout puts them.
    """
    size, places = _BEFORE_REPLICAS, list[tuple[int, int]]()
    for _ in ("replicas", "in sync", "offline"):
        nodes = body[at + size]
        if not 0 < nodes <= _ONE_BYTE:
            return None
        places.append((size, nodes))
        size += 1 + (nodes - 1) * NODE_BYTES
    places.append((size, 0))  # tags
    size += 1
    end = at + count * size
    if end > len(body):  # a count that is believed would ask for that many bytes
        return None
    if any(body[at + place : end : size] != bytes([known]) * count for place, known in places):
        return None
    return places[0][1] - 1, end
