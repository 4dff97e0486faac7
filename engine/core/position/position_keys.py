"""Encodes and decodes the keys of positions, as Connect makes them for MM2's source connector.

    ["MirrorSourceConnector",{"cluster":A,"partition":p,"topic":t}]

The first element is the connector's name: the name of its class if MM2 runs by itself, the user's choice in a Connect
cluster. The offsets topic of a Connect cluster also holds the offsets of other connectors.
"""

from collections.abc import Iterable

import msgspec

from engine.base.unreadable import UNREADABLE
from policies.model import TopicPartition

CONNECTOR = "MirrorSourceConnector"
"""The name of the connector if MM2 runs by itself."""


class PositionKeys(msgspec.Struct, frozen=True):
    """Selects the positions of one source under one connector's name."""

    source: str
    connector: str = CONNECTOR

    def encode(self, lane: TopicPartition) -> bytes:
        """Encode the lane's identity byte for byte as MM2 does: member order is part of the key."""
        partition = {"cluster": self.source, "partition": lane.partition, "topic": lane.topic}
        return msgspec.json.encode([self.connector, partition])

    def decode(self, key: bytes | None) -> TopicPartition | None:
        """Return the lane of one of the selected positions; None for any other key in the topic."""
        read = _read(key)
        return read[2] if read is not None and read[:2] == (self.connector, self.source) else None

    def others(self, keys: Iterable[bytes | None]) -> dict[str, set[TopicPartition]]:
        """Return the lanes of the same source that have positions of other connectors, by connector name."""
        found: dict[str, set[TopicPartition]] = {}
        for key in keys:
            read = _read(key)
            if read is not None and read[1] == self.source and read[0] != self.connector:
                found.setdefault(read[0], set()).add(read[2])
        return found


def _read(key: bytes | None) -> tuple[str, str, TopicPartition] | None:
    """Return connector, source alias and lane."""
    try:
        name, where = msgspec.json.decode(key or b"", type=tuple[str, dict[str, str | int]])
    except UNREADABLE:
        return None
    cluster, topic, partition = where.get("cluster"), where.get("topic"), where.get("partition")
    if not isinstance(cluster, str) or not isinstance(topic, str) or not isinstance(partition, int):
        return None
    return name, cluster, TopicPartition(topic, partition)
