"""Encodes and decodes Metadata v10 and v12 (brokers from 2.8 and 3.1 on), which have topic ids (KIP-516).

aiokafka's classes create an object for every field: an answer about 50,000 topics takes them seconds, and this a tenth.
"""

import struct
from collections.abc import Sequence
from typing import Any

import msgspec

from engine.kafka.protocol.codec import uvarint
from engine.kafka.protocol.group_codec import read_text, read_uvarint, skip_tags

METADATA_KEY = 3
METADATA_VERSIONS = (12, 10)
"""The newest first."""
ID_BYTES, NODE_BYTES, OPERATIONS_BYTES = 16, 4, 4
"""Bytes of a topic's id, of a broker id, of authorized operations."""
_FLAGS = {12: 2, 10: 3}
"""Creation of topics, and which authorized operations the answer shall have: of the cluster (not in v12), of topics."""
_I32, _TOPIC, _PARTITION = struct.Struct(">i"), struct.Struct(">h"), struct.Struct(">hiii")
_FEW = 8
_NODES = [struct.Struct(f">{count}i") for count in range(_FEW)]


class MetadataAnswer(msgspec.Struct, frozen=True):
    """An answer. `brokers`: (node, host, port, rack). `topics`: (error, name, id, is internal, partitions), and each
    partition (error, number, leader, leader epoch, replicas, in sync).
    """

    brokers: list[tuple[Any, ...]]
    cluster_id: str
    controller_id: int
    topics: list[tuple[Any, ...]]


def ask_topics(names: Sequence[str] | None, version: int) -> bytes:
    """Encode a request about topics (None: all), which creates none and asks for no operations."""
    flags = bytes(_FLAGS[version]) + b"\0"
    if names is None:
        return b"\0" + flags
    each = [bytes(ID_BYTES) + uvarint(len(name := one.encode()) + 1) + name + b"\0" for one in names]
    return b"".join([uvarint(len(each) + 1), *each, flags])


def read_metadata(body: bytes) -> MetadataAnswer:
    """Decode an answer after its correlation id. Raises IndexError, ValueError or struct.error if it is cut short."""
    brokers, cluster_id, controller_id, at = read_head(body)
    count, at = read_size(body, at)
    topics: list[tuple[Any, ...]] = []
    for _ in range(count):
        topic, at = _topic(body, at)
        topics.append(topic)
    return MetadataAnswer(brokers, cluster_id, controller_id, topics)


def read_head(body: bytes) -> tuple[list[tuple[Any, ...]], str, int, int]:
    """Decode brokers, the cluster's id and its controller; the last value is where the topics begin."""
    at = skip_tags(body, 0) + _I32.size  # after the header's tags and the throttle time
    brokers, at = _brokers(body, at)
    cluster_id, at = read_text(body, at)
    (controller_id,) = _I32.unpack_from(body, at)
    return brokers, cluster_id, controller_id, at + _I32.size


def read_size(body: bytes, at: int) -> tuple[int, int]:
    """Return the size of a list, and where its items begin. A list that is null has none: with -1 one would go back."""
    size, at = read_uvarint(body, at)
    return max(0, size - 1), at


def _brokers(body: bytes, at: int) -> tuple[list[tuple[Any, ...]], int]:
    brokers: list[tuple[Any, ...]] = []
    count, at = read_size(body, at)
    for _ in range(count):
        (node,) = _I32.unpack_from(body, at)
        host, at = read_text(body, at + NODE_BYTES)
        (port,) = _I32.unpack_from(body, at)
        rack, at = read_text(body, at + _I32.size)
        at = skip_tags(body, at)
        brokers.append((node, host, port, rack))
    return brokers, at


def _topic(body: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    (error,) = _TOPIC.unpack_from(body, at)
    name, at = read_text(body, at + _TOPIC.size)
    topic_id = body[at : at + ID_BYTES]
    is_internal = bool(body[at + ID_BYTES])
    partitions: list[tuple[Any, ...]] = []
    count, at = read_size(body, at + ID_BYTES + 1)
    for _ in range(count):
        numbers = _PARTITION.unpack_from(body, at)
        replicas, at = _nodes(body, at + _PARTITION.size)
        in_sync, at = _nodes(body, at)
        _, at = _nodes(body, at)  # offline
        at = at + 1 if not body[at] else skip_tags(body, at)
        partitions.append((*numbers, replicas, in_sync))
    return (error, name, topic_id, is_internal, partitions), skip_tags(body, at + OPERATIONS_BYTES)


def _nodes(body: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Return the brokers of a list, and where it ends."""
    count, at = read_size(body, at)
    kind = _NODES[count] if count < _FEW else struct.Struct(f">{count}i")
    return kind.unpack_from(body, at), at + kind.size
