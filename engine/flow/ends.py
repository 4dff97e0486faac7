"""The source's ends of lanes that are not fetched, so that the lag of a lane that stands still is no old one."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from engine.clock import pause, wall_ms
from engine.flow.halves import offsets_by_halves
from engine.flow.lane_driver import LaneDriver
from engine.flow.ports import LATEST, Cluster
from engine.tasks import run_all
from policies.model import TopicPartition

STALE_MS = 5000
"""A fetch at the end waits half a second by default, so a lane that is fetched tells its end more often than this."""
_EVERY_S = 2.5


class SourceEnds:
    """Asks the source for the ends that no fetch has told lately."""

    def __init__(self, source: Cluster, drivers: Mapping[TopicPartition, LaneDriver]) -> None:
        self._source = source
        self._drivers = drivers

    async def run(self) -> None:
        """Look now and then, until cancelled."""
        while True:
            await pause(_EVERY_S)
            await self.look()

    async def look(self) -> None:
        """Bring stale ends up to date; a broker that does not answer holds back only what it leads."""
        stale: dict[int, list[LaneDriver]] = defaultdict(list)
        before_ms = wall_ms() - STALE_MS
        for driver in self._drivers.values():
            if driver.end_at_ms < before_ms and driver.source_leader.node >= 0 and driver.lane.source_next >= 0:
                stale[driver.source_leader.node].append(driver)
        await run_all(*(self._ask(drivers) for drivers in stale.values()))

    async def _ask(self, drivers: Sequence[LaneDriver]) -> None:
        told_at_ms = [driver.end_at_ms for driver in drivers]
        # What is not told stays as it was told last, and is asked again at the next look.
        ends = await offsets_by_halves(self._source, [driver.name.source for driver in drivers], LATEST)
        now_ms = wall_ms()
        for driver, told_at in zip(drivers, told_at_ms, strict=True):
            end = ends.get(driver.name.source)
            if end is not None and driver.end_at_ms == told_at:  # else a fetch was faster, and knows better
                driver.source_end, driver.end_at_ms = end, now_ms
