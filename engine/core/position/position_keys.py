"""The keys of positions, as Connect makes them for MM2's source connector.

    ["MirrorSourceConnector",{"cluster":A,"partition":p,"topic":t}]

The first element is the connector's name: its class's where MM2 runs by itself, the user's choice in a Connect cluster,
whose one offsets topic then holds the offsets of other connectors too (mm2-contract 2.6).
"""

from collections.abc import Iterable

import msgspec

from policies.model import TopicPartition

CONNECTOR = "MirrorSourceConnector"
"""The name of the connector where MM2 runs by itself."""


class PositionKeys(msgspec.Struct, frozen=True):
    """Whose positions are meant: those of one source, kept under one connector's name."""

    source: str
    connector: str = CONNECTOR

    def encode(self, lane: TopicPartition) -> bytes:
        """Encode the lane's identity byte for byte as MM2 does: member order is part of the key."""
        partition = {"cluster": self.source, "partition": lane.partition, "topic": lane.topic}
        return msgspec.json.encode([self.connector, partition])

    def decode(self, key: bytes | None) -> TopicPartition | None:
        """Return the lane of a position of ours, None for any other key in the topic."""
        read = _read(key)
        return read[2] if read is not None and read[:2] == (self.connector, self.source) else None

    def others(self, keys: Iterable[bytes | None]) -> dict[str, set[TopicPartition]]:
        """Return the lanes of the same source that other connectors have positions of, by their names."""
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
    except msgspec.DecodeError:
        return None
    cluster, topic, partition = where.get("cluster"), where.get("topic"), where.get("partition")
    if not isinstance(cluster, str) or not isinstance(topic, str) or not isinstance(partition, int):
        return None
    return name, cluster, TopicPartition(topic, partition)
