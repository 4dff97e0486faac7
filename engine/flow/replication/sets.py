"""Manages the partition sets of a copier: lanes that join, leave, return while they leave, and get a higher epoch."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from engine.base.clock import pause
from engine.core.lane.states import State
from engine.flow.context.copier_context import CopierContext
from engine.flow.io.router import BrokerRouter
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ownership.failure_handler import FailureHandler
from policies.model import LaneName, PartitionSet, TopicPartition

_OWNERLESS = (State.ACQUIRING, State.WATCHING)
_AT_REST = (State.STOPPED, State.FAILED, *_OWNERLESS)
_LOOK_S = 0.01
_PART_S = 2.0
"""How long a stop waits at its end for last positions, in seconds: they save the next start its barrier."""


class LaneSource(Protocol):
    """Creates the drivers of lanes (`FlowCopier`)."""

    def new_driver(self, name: LaneName, partition_set: PartitionSet) -> LaneDriver:
        """Create the driver of a lane that joins."""

    def left(self, driver: LaneDriver) -> None:
        """Note that a lane has left."""


class Sets:
    """Takes and releases partition sets."""

    def __init__(
        self, context: CopierContext, router: BrokerRouter, failures: FailureHandler, lanes: LaneSource
    ) -> None:
        self._context = context
        self._drivers = context.drivers
        self._lease_guard = context.lease_guard
        self._router = router
        self._failures = failures
        self._lanes = lanes
        self._drain_s = context.options.drain_s
        self._draining = False
        self._returning: dict[TopicPartition, tuple[LaneName, PartitionSet]] = {}
        self._by_set: dict[str, dict[LaneDriver, None]] = {}
        """The drivers of each set: a search in all of tens of thousands, for each of their sets, takes seconds."""

    # --- joining ---------------------------------------------------------------------------------------------

    def assign(self, partition_set: PartitionSet) -> None:
        """Take a new partition set, or changes of an assigned set (see `FlowCopier.assign`)."""
        if self._draining:
            return
        present = {name.source for name in partition_set.lanes}
        self._take_back(partition_set.set_id, present)
        left = [
            driver
            for driver in self._lanes_of(partition_set.set_id)
            if driver.name.source not in present and driver.ownership.assignment_epoch <= partition_set.epoch
        ]
        if left and self._context.tasks.running:
            _mark_leaving(left)
            self._context.tasks.spawn(self._leave(left))
        elif left:
            self._forget(left)
        for name in partition_set.lanes:
            driver = self._drivers.get(name.source)
            if driver is None:
                self._join(name, partition_set)
            elif driver.ownership.leaving:
                self._come_back(driver, name, partition_set)
            elif driver.ownership.assignment_epoch < partition_set.epoch:
                self._hold_anew(driver, partition_set)
        self._context.ownerless.set()

    @property
    def ids(self) -> tuple[str, ...]:
        """The sets of which this copier has lanes, in their order."""
        return tuple(sorted(self._by_set))

    def _join(self, name: LaneName, partition_set: PartitionSet) -> None:
        driver = self._drivers[name.source] = self._lanes.new_driver(name, partition_set)
        self._note_set(driver)

    def _note_set(self, driver: LaneDriver) -> None:
        self._by_set.setdefault(driver.ownership.set_id, {})[driver] = None

    def _forget_set(self, driver: LaneDriver) -> None:
        set_id = driver.ownership.set_id
        del self._by_set[set_id][driver]
        if not self._by_set[set_id]:
            del self._by_set[set_id]

    def _lanes_of(self, set_id: str) -> list[LaneDriver]:
        return list(self._by_set.get(set_id, ()))

    def _come_back(self, driver: LaneDriver, name: LaneName, partition_set: PartitionSet) -> None:
        known = self._returning.get(name.source)
        newest = max(driver.ownership.assignment_epoch, known[1].epoch if known is not None else -1)
        if partition_set.epoch >= newest:
            self._returning[name.source] = name, partition_set

    def _hold_anew(self, driver: LaneDriver, partition_set: PartitionSet) -> None:
        """Give a lane that this copier owns a higher epoch; its next position records that epoch.

        If another owner had an epoch in between, one of the two has fenced the other, so the broker refuses the older
        one. Without fences the broker does not, so such a lane is acquired again; so is a failed lane.
        """
        self._forget_set(driver)
        driver.ownership.assign(partition_set.set_id, partition_set.epoch)
        self._note_set(driver)
        if driver.lane.state in _OWNERLESS:
            return
        if driver.lane.state is State.FAILED or (driver.producer is not None and not driver.producer.fenced):
            self._failures.rejoin(driver)
        else:
            driver.lane.adopt_epoch(partition_set.epoch)
            driver.positions.flush_asked = True
            self._router.schedule_send([driver])

    # --- leaving ---------------------------------------------------------------------------------------------

    async def release(self, set_id: str) -> None:
        """Drain the lanes of a set, make their positions durable, forget them; concurrent calls are safe."""
        self._take_back(set_id, set())
        drivers = self._lanes_of(set_id)
        _mark_leaving(drivers)
        await self._leave(drivers)

    async def drain(self) -> None:
        """Release all sets, and take no more."""
        self._draining = True
        self._returning.clear()
        await self._settle_down(list(self._drivers.values()), self._at_rest)

    def _take_back(self, set_id: str, present: set[TopicPartition]) -> None:
        """Cancel the return of lanes that are no longer in this set."""
        for lane, (_, wanted) in list(self._returning.items()):
            if wanted.set_id == set_id and lane not in present:
                del self._returning[lane]

    async def _leave(self, drivers: Sequence[LaneDriver]) -> None:
        try:
            await self._settle_down(drivers, self._may_go)
        finally:
            self._forget(drivers)

    def _forget(self, drivers: Sequence[LaneDriver]) -> None:
        for driver in drivers:
            lane = driver.name.source
            if self._drivers.get(lane) is not driver:
                continue  # another release of the same set has done it
            del self._drivers[lane]
            self._forget_set(driver)
            self._router.leave(driver)
            self._lanes.left(driver)
            back = self._returning.pop(lane, None)
            if back is not None and not self._draining:
                self._join(*back)
        self._context.ownerless.set()

    async def _settle_down(self, drivers: Sequence[LaneDriver], is_done: Callable[[LaneDriver], bool]) -> None:
        """Wait for a bounded time until lanes are idle with durable positions; the next owner settles the rest."""
        for driver in drivers:
            driver.lane.drain()
        try:
            async with asyncio.timeout(self._drain_s):
                while not all(is_done(driver) for driver in drivers):
                    await self._let_finish(drivers)
                async with asyncio.timeout(_PART_S):
                    while any(self._is_parting(driver) for driver in drivers):
                        await self._let_finish(drivers)
        except TimeoutError:
            pass
        finally:
            for driver in drivers:
                if driver.lane.state is not State.STOPPED:
                    driver.health.stop(failed=driver.lane.state is State.FAILED)
                    driver.lane.stop()

    async def _let_finish(self, drivers: Sequence[LaneDriver]) -> None:
        for driver in drivers:
            driver.positions.flush_asked = _has_finished(driver)
        self._router.schedule_send(drivers)
        await pause(_LOOK_S)

    def _is_parting(self, driver: LaneDriver) -> bool:
        """Whether the lane can still write that its owner has left, which saves the next owner its barrier."""
        positions = driver.positions
        return (
            self._lease_guard.is_open
            and positions.parting
            and not positions.denied
            and self._router.is_answered(driver)
        )

    def _may_go(self, driver: LaneDriver) -> bool:
        """Whether a release need not wait for a lane: a silent broker must not hold the other lanes of the set.

        Without a fence the release waits: the next owner relies on all earlier requests being answered, or old.
        """
        is_fenced = driver.producer is None or driver.producer.fenced
        return self._at_rest(driver) or (is_fenced and not self._router.is_answered(driver))

    def _at_rest(self, driver: LaneDriver) -> bool:
        if driver.lane.state in _AT_REST:
            return True
        if not self._lease_guard.is_open:
            return not driver.lane.in_flight  # no position can be written
        positions = driver.positions  # if a right is missing, it does not wait: the next owner reads the tail
        return _has_finished(driver) and (positions.settled or positions.denied)


def _mark_leaving(drivers: Sequence[LaneDriver]) -> None:
    for driver in drivers:
        driver.ownership.leave()


def _has_finished(driver: LaneDriver) -> bool:
    """Whether no more acknowledgements will come; a record that the target refuses counts as finished."""
    return driver.lane.idle or driver.lane.state is State.REFUSED
