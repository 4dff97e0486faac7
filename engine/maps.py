"""Composition: the exact maps of a flow's lanes, as its copiers leave them on the target."""

from collections.abc import Collection

from engine.core.map_blocks import decode_block, map_topic, read_block_key
from engine.core.map_runs import MapHead
from engine.core.offset_map import OffsetMap, Translation
from engine.core.position import Position, decode_key, decode_value
from engine.kafka.gateway import KafkaCluster
from engine.settings import FlowConfig
from policies.model import TopicPartition

_NOTHING = OffsetMap()


class StoredMaps:
    """Reads positions, then the blocks that they count, whole, each time it follows."""

    def __init__(self, flow: FlowConfig, target: KafkaCluster) -> None:
        self._flow, self._target = flow, target
        self._maps: dict[TopicPartition, OffsetMap] = {}

    async def follow(self, lanes: Collection[TopicPartition]) -> None:
        """Catch up. Raises ConnectionLost, BrokerUnreachable."""
        positions: dict[TopicPartition, Position] = {}
        for key, value in await self._target.read_records(self._flow.positions_topic):
            known = decode_key(key) if key is not None else None
            position = decode_value(value) if known is not None else None
            if known is not None and known[0] == self._flow.name.source and isinstance(position, Position):
                positions[known[1]] = position
        self._maps = {lane: OffsetMap() for lane in lanes if lane in positions}
        topic = map_topic(self._flow.name.source)
        for place, (key, value) in enumerate(await self._target.read_records(topic)):
            where = read_block_key(key)
            if where is not None and value is not None and where[1] in self._maps:
                self._maps[where[1]].add_block(decode_block(where[2], value, topic), place)
        for lane, found in self._maps.items():
            found.follow(positions[lane].map_head, positions[lane].map_start)

    def translate(self, lane: TopicPartition, source_offset: int) -> Translation:
        """Answer from memory."""
        return self._maps.get(lane, _NOTHING).translate(source_offset)

    async def recall(self, lane: TopicPartition, blocks: Collection[int]) -> None:
        """Everything is in memory."""

    def head(self, lane: TopicPartition) -> MapHead | None:
        """Return where the copy of a lane ends."""
        return self._maps[lane].head if lane in self._maps else None


def maps_of(flow: FlowConfig, _source: KafkaCluster, target: KafkaCluster) -> StoredMaps:
    """Make the reader of a flow's maps."""
    return StoredMaps(flow, target)
