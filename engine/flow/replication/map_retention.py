"""Removes blocks of the offset map whose records the target's retention has deleted, at a slow pace.

First the position moves the start of the map, then the lane's own fenced producer writes the tombstones. So a reader
never misses a block that the position counts, and an owner that was replaced removes nothing.
"""

from collections import defaultdict

from engine.base.clock import now_s, pause
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.core.lane.states import State
from engine.core.offset_map.map_retention import deleted_blocks
from engine.core.offset_map.map_runs import MapTail
from engine.flow.context.copier_context import CopierContext
from engine.flow.io.router import BrokerRouter
from engine.flow.lane.bisection import offsets_by_leaders
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ownership.block_scan import find_blocks
from engine.flow.ports.ports import EARLIEST
from policies.model import TopicPartition

_DURABLE_S = 30.0
_LOOK_S = 0.1
_REST_S = 0.005
"""Pause after every few blocks, which take a millisecond or two: a check once an hour need not be fast."""


class MapRetention:
    """Removes old blocks of one copier's lanes."""

    def __init__(self, context: CopierContext, router: BrokerRouter) -> None:
        self._options = context.options
        self._target = context.target
        self._drivers = context.drivers
        self._router = router
        self._seen: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        """Clean every `map_retention_s` seconds until cancelled."""
        while True:
            await pause(self._options.map_retention_s)
            await self.clean()

    async def clean(self) -> None:
        """Check all lanes once; after a failure the next round checks them again."""
        drivers = {lane: driver for lane, driver in self._drivers.items() if _known(driver) is not None}
        self._seen = {lane: start for lane, start in self._seen.items() if lane in drivers}
        try:
            led = {driver.name.target: driver.leaders.target for driver in drivers.values()}
            starts = await offsets_by_leaders(self._target, led, EARLIEST)
            grouped: defaultdict[TopicPartition, dict[LaneDriver, int]] = defaultdict(dict)
            for lane, driver in drivers.items():
                start, known = starts.get(driver.name.target, -1), _known(driver)
                if known is not None and start >= known.start.target and self._seen.get(lane) != start:
                    grouped[driver.block_appender.partition][driver] = start
            for partition, group in grouped.items():
                await self._clean_blocks(partition, group)
        except (ConnectionLost, BrokerUnreachable, KafkaRefusal):
            return

    async def _clean_blocks(self, partition: TopicPartition, group: dict[LaneDriver, int]) -> None:
        """For the lanes with blocks on one partition: move the start of their maps, then remove the blocks."""
        maps = {driver: _known(driver) for driver in group}
        lanes = [driver.name.source for driver in group]
        blocks = await find_blocks(self._target, partition, self._options.flow.source, lanes, rest_s=_REST_S)
        begun: dict[LaneDriver, tuple[MapTail, int, tuple[int, ...]]] = {}
        for driver, log_start in group.items():
            known = _known(driver)
            if known is None or known is not maps[driver]:
                continue  # the lane was acquired again, and may have other blocks: checked in the next round
            self._seen[driver.name.source] = log_start
            found = deleted_blocks(blocks[driver.name.source], known, log_start)
            if found is not None:
                known.start = found.start
                driver.lane.position_version += 1
                driver.positions.flush_asked = True
                begun[driver] = known, driver.lane.position_version, found.numbers
        self._router.schedule_send(list(begun))
        give_up_at = now_s() + _DURABLE_S
        while begun and now_s() < give_up_at:
            for driver, (known, version, numbers) in list(begun.items()):
                if _known(driver) is not known:
                    del begun[driver]  # the next owner finds the blocks again
                elif driver.positions.is_durable(version):
                    del begun[driver]
                    known.to_remove += sorted(set(numbers).difference(known.to_remove))
                    self._router.schedule_send([driver])
            await pause(_LOOK_S)
        for driver in begun:
            self._seen.pop(driver.name.source, None)


def _known(driver: LaneDriver) -> MapTail | None:
    """Return the map of a lane that this copier owns and has announced; else None."""
    return driver.lane.map if driver.lane.state is State.COPYING and driver.lane.announced else None
