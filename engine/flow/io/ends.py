"""Keeps the source ends of lanes that are not fetched, so that the lag of a lane that stands still is right.

It asks for their ends every second. A lane that has copied nothing since it came to this copier (one of a paused topic,
for example) does not know how old its next record is; the source is asked for that once.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence

from engine.base.clock import pause, wall_ms
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal, OffsetGone, WireError
from engine.base.tasks import run_all
from engine.flow.lane.bisection import offsets_bisecting
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ports.ports import LATEST, Cluster
from policies.model import TopicPartition

STALE_MS = 4000
"""A lane that is fetched learns its end more often than this: a fetch at the log's end waits 0.5 s by default."""
_EVERY_S = 1.0
_DATING_S = 2.0
"""How long the lanes of one leader are dated in one look, one after the other: those left over have their turn next."""
_AGAIN_MS = 60_000
"""How soon a lane is dated again that got no date: the record may be in tiered storage, or deleted, or not readable."""


class SourceEnds:
    """Asks the source for the ends that no fetch has brought lately, each leader by itself."""

    def __init__(self, source: Cluster, drivers: Mapping[TopicPartition, LaneDriver]) -> None:
        self._source = source
        self._drivers = drivers
        self._asked: set[int] = set()
        """Brokers that have not answered yet."""

    async def run(self) -> None:
        """Look every second, until cancelled; the next look does not wait for brokers that are silent."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._date_all())
            while True:
                await pause(_EVERY_S)
                group.create_task(self.refresh())

    async def refresh(self) -> None:
        """Bring stale ends up to date; a broker that does not answer delays only what it leads."""
        stale: dict[int, list[LaneDriver]] = defaultdict(list)
        now_ms = wall_ms()
        for driver in self._drivers.values():
            node = driver.leaders.source.node
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
        # An end without an answer keeps its last value for a while, and is asked for again at the next look.
        ends = await offsets_bisecting(self._source, [driver.name.source for driver in drivers], LATEST)
        now_ms = wall_ms()
        for driver, told_at in zip(drivers, told_at_ms, strict=True):
            end = ends.get(driver.name.source)
            if driver.end.at_ms != told_at:
                continue  # a fetch was faster, and knows better
            if end is None:
                driver.end.miss()
            else:
                driver.end.reported(end, now_ms)

    async def _date_all(self) -> None:
        while True:
            await pause(_EVERY_S)
            await self.date()

    async def date(self) -> None:
        """Ask how old the next records are, of lanes that nothing else tells, each leader for a short time."""
        undated: dict[int, list[LaneDriver]] = defaultdict(list)
        since_ms = wall_ms() - _AGAIN_MS
        for driver in self._drivers.values():
            if driver.leaders.source.node >= 0 and _is_undated(driver, since_ms):
                undated[driver.leaders.source.node].append(driver)
        await run_all(*(self._date(drivers) for drivers in undated.values()))

    async def _date(self, drivers: Sequence[LaneDriver]) -> None:
        try:
            async with asyncio.timeout(_DATING_S):
                for driver in drivers:
                    await self._date_one(driver)
        except (TimeoutError, BrokerUnreachable, ConnectionLost):
            return  # the broker is slow or away: its other lanes are not worth a wait each

    async def _date_one(self, driver: LaneDriver) -> None:
        """Date one lane. Raises BrokerUnreachable, ConnectionLost."""
        offset = driver.lane.source_next
        driver.watch.date(offset, -1, wall_ms())  # whatever comes of it, it is not asked again for a while
        try:
            found = await self._source.read_time(driver.name.source, offset)
        except (OffsetGone, KafkaRefusal, WireError):
            return
        driver.watch.date(offset, found, wall_ms())


def _is_undated(driver: LaneDriver, since_ms: int) -> bool:
    """Whether no fetch will say soon how old the first record is that the lane has not copied, and nothing has."""
    lane = driver.lane
    knows = lane.newest_ms >= 0 or lane.pieces.head_ms >= 0 or driver.watch.is_dated(lane.source_next, since_ms)
    return not knows and not lane.listens and 0 <= lane.source_next < driver.end.offset
