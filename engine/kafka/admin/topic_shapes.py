"""Reads how many partitions and replicas topics have, with its own parser of Metadata v12 (brokers from 3.1 on).

It skips the rest of the metadata. aiokafka's classes would create an object for every field of every partition.
"""

import struct
from collections.abc import Sequence

import msgspec

from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.metadata import Metadata
from engine.kafka.protocol.group_codec import read_text, read_uvarint, skip_tags
from engine.kafka.protocol.metadata_codec import ask_topics
from engine.kafka.protocol.readable import readable

METADATA = (3, 12)
"""API key and version of the request."""
_TIMEOUT_S = 60.0
_I16, _I32 = struct.Struct(">h"), struct.Struct(">i")
_ONE_BYTE = 0x7F
"""The highest varint of one byte."""
_ID_BYTES, _BEFORE_REPLICAS, _NODE_BYTES, _OPERATIONS_BYTES = 16, 14, 4, 4
"""Bytes of a topic's id; of a partition's error, number, leader and epoch; of a broker id; of authorized operations."""


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
    answer = await connection.request(*METADATA, True, [ask_topics(names, METADATA[1])], _TIMEOUT_S)
    with readable(connection.address):
        return read_shapes(bytes(answer))


def _shapes(metadata: Metadata) -> dict[str, TopicShape]:
    return {
        name: TopicShape(len(one.partitions), min(len(p.replicas) for p in one.partitions.values()), one.is_internal)
        for name, one in metadata.topics.items()
        if one.partitions
    }


def read_shapes(body: bytes) -> dict[str, TopicShape]:
    """Decode the topics of an answer that have partitions. Raises IndexError or struct.error if it is cut short."""
    at = _brokers_end(body, skip_tags(body, 0) + _I32.size)  # after the header's tags and the throttle time
    topics, at = read_uvarint(body, at)
    found: dict[str, TopicShape] = {}
    for _ in range(topics - 1):
        name, at = read_text(body, at + _I16.size)
        at += _ID_BYTES
        is_internal = bool(body[at])
        partitions, at = _read_size(body, at + 1)
        fewest, at = _partitions(body, at, partitions)
        at = skip_tags(body, at + _OPERATIONS_BYTES)
        if partitions:
            found[name] = TopicShape(partitions, fewest, is_internal)
    return found


def _brokers_end(body: bytes, at: int) -> int:
    """Skip brokers, the cluster's id and its controller."""
    brokers, at = read_uvarint(body, at)
    for _ in range(brokers - 1):
        _, at = read_text(body, at + _NODE_BYTES)  # host
        _, at = read_text(body, at + _I32.size)  # rack, behind the port
        at = skip_tags(body, at)
    _, at = read_text(body, at)
    return at + _NODE_BYTES


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
    nodes, at = _read_size(body, at)
    return nodes, at + nodes * _NODE_BYTES


def _read_size(body: bytes, at: int) -> tuple[int, int]:
    """Return the size of a list, and where its items begin. A list that is null has none: with -1 one would go back."""
    size, at = read_uvarint(body, at)
    return max(0, size - 1), at


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
        size += 1 + (nodes - 1) * _NODE_BYTES
    places.append((size, 0))  # tags
    size += 1
    end = at + count * size
    if end > len(body):  # a count that is believed would ask for that many bytes
        return None
    if any(body[at + place : end : size] != bytes([known]) * count for place, known in places):
        return None
    return places[0][1] - 1, end
