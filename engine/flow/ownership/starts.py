"""Resolves the start rule of a topic into the source offset where a lane without a position begins."""

from collections.abc import Callable

from engine.base.clock import wall_ms
from engine.flow.ports.ports import Cluster
from policies.model import TopicPartition
from policies.start import Duration, Earliest, Latest, Offsets, Start, Timestamp


class StartResolver:
    """Asks the source for the offset that a rule means now."""

    def __init__(self, source: Cluster, start_for: Callable[[str], Start]) -> None:
        self._source = source
        self._start_for = start_for

    async def resolve(self, lane: TopicPartition, *, start: int, end: int) -> int:
        """Return the first source offset to copy; a timestamp younger than every record means the end.

        `start`, `end`: of the source's log, as read for all lanes together: a question for each is two round trips
        for each of the thousands of partitions of a new flow.
        """
        rule = self._start_for(lane.topic)
        match rule:
            case Offsets() if lane.partition in rule.offsets:
                return rule.offsets[lane.partition]
            case Latest():
                return end
            case Timestamp():
                return await self._since(lane, rule.timestamp_ms, end)
            case Duration():
                return await self._since(lane, wall_ms() - int(rule.duration_s * 1000), end)
            case Earliest() | Offsets():
                return start

    async def _since(self, lane: TopicPartition, timestamp_ms: int, end: int) -> int:
        found = (await self._source.offsets([lane], max(0, timestamp_ms)))[lane]
        return found if found >= 0 else end
