"""Updates the source ends of lanes that are not fetched, so that the lag of a lane without progress is right.

It asks for their ends every second. A lane that has copied nothing since it came to this copier (one of a paused topic,
for example) does not know how old its next record is; raymirror asks the source for that once.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import inf

from engine.base.clock import Turns, beat_s, now_s, pause, wall_ms
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal, OffsetGone, WireError
from engine.base.tasks import run_all
from engine.flow.lane.bisection import offsets_bisecting
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ports.ports import LATEST, Cluster
from policies.model import TopicPartition

STALE_MS = 4000
"""A lane that is fetched learns its end more often than this: a fetch at the log's end waits 0.5 s by default."""
_EVERY_S = 1.0
_REST_OF_LOOKS = 10
"""After a look at all lanes, how many times as long as it took none begins: tens of thousands take long."""
_DATING_S = 2.0
"""Seconds per round to date the lanes of one leader, one after the other; lanes that are left have the next turn."""
_AGAIN_MS = 60_000
"""Milliseconds until the next try to date a lane: its record may be in tiered storage, deleted, or not readable."""


class SourceEnds:
    """Asks the source for the ends that no fetch has reported lately, each leader separately."""

    def __init__(self, source: Cluster, drivers: Mapping[TopicPartition, LaneDriver]) -> None:
        self._source = source
        self._drivers = drivers
        self._asked: set[int] = set()
        """Brokers that have not answered yet."""
        self._rests_until_s = 0.0

    async def run(self) -> None:
        """Check every second, until cancelled; the next check does not wait for silent brokers."""
        async with asyncio.TaskGroup() as group:
            dating = group.create_task(self.date())
            while True:
                await pause(beat_s(_EVERY_S))
                if now_s() >= self._rests_until_s:
                    group.create_task(self.refresh())
                if dating.done():
                    dating = group.create_task(self.date())

    async def refresh(self) -> None:
        """Update stale ends; a broker that does not answer delays only the partitions that it leads."""
        stale = await self._stale()
        await run_all(*(self._ask(node, drivers) for node, drivers in stale.items()))

    async def _stale(self) -> dict[int, list[LaneDriver]]:
        """Look for lanes with stale ends, by their leaders. No other look begins meanwhile, nor soon after it."""
        began_s, self._rests_until_s = now_s(), inf
        try:
            return await self._look()
        finally:
            self._rests_until_s = now_s() + _REST_OF_LOOKS * (now_s() - began_s)

    async def _look(self) -> dict[int, list[LaneDriver]]:
        stale: dict[int, list[LaneDriver]] = defaultdict(list)
        turns, now_ms = Turns(), wall_ms()
        for driver in list(self._drivers.values()):
            await turns.rest()
            node = driver.leaders.source.node
            if node in self._asked or driver.lane.source_next < 0 or not driver.end.is_stale(now_ms, STALE_MS):
                continue
            if node < 0:
                driver.end.miss()
            else:
                stale[node].append(driver)
        return stale

    async def _ask(self, node: int, drivers: Sequence[LaneDriver]) -> None:
        if node in self._asked:
            return  # by a check that began later and looked at fewer lanes
        self._asked.add(node)
        try:
            await self._hear(drivers)
        finally:
            self._asked.discard(node)

    async def _hear(self, drivers: Sequence[LaneDriver]) -> None:
        told_at_ms = [driver.end.at_ms for driver in drivers]
        # Without an answer an end keeps its last value for a while, and the next check asks again.
        ends = await offsets_bisecting(self._source, [driver.name.source for driver in drivers], LATEST)
        now_ms = wall_ms()
        for driver, told_at in zip(drivers, told_at_ms, strict=True):
            end = ends.get(driver.name.source)
            if driver.end.at_ms != told_at:
                continue  # a fetch was faster, and its end is newer
            if end is None:
                driver.end.miss()
            else:
                driver.end.reported(end, now_ms)

    async def date(self) -> None:
        """Ask how old the next records are of lanes that do not know it, each leader for a short time."""
        undated: dict[int, list[LaneDriver]] = defaultdict(list)
        turns, since_ms = Turns(), wall_ms() - _AGAIN_MS
        for driver in list(self._drivers.values()):
            await turns.rest()
            if driver.leaders.source.node >= 0 and _is_undated(driver, since_ms):
                undated[driver.leaders.source.node].append(driver)
        await run_all(*(self._date(drivers) for drivers in undated.values()))

    async def _date(self, drivers: Sequence[LaneDriver]) -> None:
        try:
            async with asyncio.timeout(_DATING_S):
                for driver in drivers:
                    await self._date_one(driver)
        except (TimeoutError, BrokerUnreachable, ConnectionLost):
            return  # the broker is slow or unreachable: its other lanes do not wait for it too

    async def _date_one(self, driver: LaneDriver) -> None:
        """Date one lane. Raises BrokerUnreachable, ConnectionLost."""
        offset = driver.lane.source_next
        driver.watch.date(offset, -1, wall_ms())  # before the question: a failure is not repeated for a while either
        try:
            found = await self._source.read_time(driver.name.source, offset)
        except (OffsetGone, KafkaRefusal, WireError):
            return
        driver.watch.date(offset, found, wall_ms())


def _is_undated(driver: LaneDriver, since_ms: int) -> bool:
    """Whether the age of the lane's next record is unknown, and no fetch will report it soon."""
    lane = driver.lane
    knows = lane.newest_ms >= 0 or lane.pieces.head_ms >= 0 or driver.watch.is_dated(lane.source_next, since_ms)
    return not knows and not lane.listens and 0 <= lane.source_next < driver.end.offset
