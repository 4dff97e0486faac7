"""What the source holds of lanes that are not fetched, so that the lag of a lane that stands still is right.

Their ends are asked for again and again. A lane that has copied nothing since it is here, one of a paused topic say,
does not know how old the next record is, and the source is asked for that once.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence

from engine.clock import pause, wall_ms
from engine.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal, WireError
from engine.flow.halves import offsets_by_halves
from engine.flow.lane_driver import LaneDriver
from engine.flow.ports import LATEST, Cluster
from engine.tasks import run_all
from policies.model import TopicPartition

STALE_MS = 4000
"""A fetch at the end waits half a second by default, so a lane that is fetched tells its end more often than this."""
_EVERY_S = 1.0
_DATED_AT_ONCE = 500
"""Lanes of one leader, one after the other, so that its next ends are not held back: a second or two."""


class SourceEnds:
    """Asks the source for the ends that no fetch has told lately, each leader by itself."""

    def __init__(self, source: Cluster, drivers: Mapping[TopicPartition, LaneDriver]) -> None:
        self._source = source
        self._drivers = drivers
        self._asked: set[int] = set()
        """Brokers whose answer has not come yet."""

    async def run(self) -> None:
        """Look now and then, until cancelled; the next look does not wait for brokers that are silent."""
        async with asyncio.TaskGroup() as group:
            while True:
                await pause(_EVERY_S)
                group.create_task(self.look())

    async def look(self) -> None:
        """Bring stale ends up to date; a broker that does not answer holds back only what it leads."""
        stale: dict[int, list[LaneDriver]] = defaultdict(list)
        now_ms = wall_ms()
        for driver in self._drivers.values():
            node = driver.source_leader.node
            if node in self._asked or driver.lane.source_next < 0 or not driver.end.is_stale(now_ms, STALE_MS):
                continue
            if node < 0:
                driver.end.miss()
            else:
                stale[node].append(driver)
        await run_all(*(self._ask(node, drivers) for node, drivers in stale.items()))

    async def _ask(self, node: int, drivers: Sequence[LaneDriver]) -> None:
        self._asked.add(node)
        try:
            await self._hear(drivers)
        finally:
            self._asked.discard(node)

    async def _hear(self, drivers: Sequence[LaneDriver]) -> None:
        told_at_ms = [driver.end.at_ms for driver in drivers]
        # What is not told stays as it was told last for a while, and is asked again at the next look.
        ends = await offsets_by_halves(self._source, [driver.name.source for driver in drivers], LATEST)
        now_ms = wall_ms()
        for driver, told_at in zip(drivers, told_at_ms, strict=True):
            end = ends.get(driver.name.source)
            if driver.end.at_ms != told_at:
                continue  # a fetch was faster, and knows better
            if end is None:
                driver.end.miss()
            else:
                driver.end.told(end, now_ms)
        for driver in list(filter(_is_undated, drivers))[:_DATED_AT_ONCE]:
            await self._date(driver)

    async def _date(self, driver: LaneDriver) -> None:
        offset = driver.lane.source_next
        try:
            driver.watch.date(offset, await self._source.read_time(driver.name.source, offset))
        except (BrokerUnreachable, ConnectionLost, KafkaRefusal, WireError):
            return  # asked again with the next question for its end


def _is_undated(driver: LaneDriver) -> bool:
    """Whether nothing tells how old the first record is that the lane has not copied."""
    lane = driver.lane
    knows = lane.newest_ms >= 0 or lane.pieces.head_ms >= 0 or driver.watch.is_dated(lane.source_next)
    return not knows and 0 <= lane.source_next < driver.end.offset
