"""Resolves the start rule of a topic into the source offset where a lane without a position begins."""

from collections.abc import Callable

from engine.base.clock import wall_ms
from engine.flow.ports.ports import EARLIEST, LATEST, Cluster
from policies.model import TopicPartition
from policies.start import Duration, Earliest, Latest, Offsets, Start, Timestamp


class StartResolver:
    """Asks the source for the offset that a rule means now."""

    def __init__(self, source: Cluster, start_for: Callable[[str], Start]) -> None:
        self._source = source
        self._start_for = start_for

    async def resolve(self, lane: TopicPartition) -> int:
        """Return the first source offset to copy; a timestamp younger than every record means the end."""
        rule = self._start_for(lane.topic)
        match rule:
            case Offsets() if lane.partition in rule.offsets:
                return rule.offsets[lane.partition]
            case Latest():
                return await self._at(lane, LATEST)
            case Timestamp():
                return await self._since(lane, rule.timestamp_ms)
            case Duration():
                return await self._since(lane, wall_ms() - int(rule.duration_s * 1000))
            case Earliest() | Offsets():
                return await self._at(lane, EARLIEST)

    async def _since(self, lane: TopicPartition, timestamp_ms: int) -> int:
        found = await self._at(lane, max(0, timestamp_ms))
        return found if found >= 0 else await self._at(lane, LATEST)

    async def _at(self, lane: TopicPartition, timestamp_ms: int) -> int:
        return (await self._source.offsets([lane], timestamp_ms))[lane]
