"""Who leads what: looked up when a lane asks, and now and then; a lane without an answer asks ever less often."""

import asyncio
from collections.abc import Callable, Iterable
from math import inf

from engine.clock import backoff_s, now_s, pause
from engine.errors import BrokerUnreachable, ConnectionLost
from engine.flow.lane_driver import NOBODY, LaneDriver
from engine.flow.ports import Cluster, Leader
from engine.tasks import run_all
from policies.model import TopicPartition

_REFRESH_S = 30.0
_NEAREST_S = 300.0
"""How long a nearest replica is believed to be one: it may have fallen behind, and only the leader would know."""
_AGAIN_S = 0.1
"""Least time between two look-ups: a leader election takes longer than that anyway."""
_PATIENCE_S = 1.0
"""Most time between two look-ups that a lane asks for: a lane stands still for so long after its leader is there."""
_FORGIVEN_S = 30.0
"""A lane without a fault for so long has none."""


class Leaders:
    """Keeps the leaders of all lanes; `settle` and `place` are called for the lanes that were looked up."""

    def __init__(
        self,
        source: Cluster,
        target: Cluster,
        drivers: dict[TopicPartition, LaneDriver],
        place: Callable[[LaneDriver], None],
        changed: Callable[[LaneDriver, str, str, str, str], None],
        settle: Callable[[list[LaneDriver]], None],
    ) -> None:
        self._settle = settle
        self._source = source
        self._target = target
        self._drivers = drivers
        self._place = place
        self._changed = changed
        self._due: dict[LaneDriver, float] = {}
        self._asked = asyncio.Event()
        self._all_at_s = now_s() + _REFRESH_S
        self._nearest_at_s = now_s()
        self._failures = 0

    def look_up(self, drivers: Iterable[LaneDriver]) -> None:
        """Ask for a look-up of some lanes soon."""
        for driver in drivers:
            self._due[driver] = 0.0
        self._asked.set()

    def look_up_later(self, driver: LaneDriver) -> None:
        """Ask for a look-up because of a fault of this lane: the first at once, then ever later."""
        now = now_s()
        driver.faults = driver.faults + 1 if now - driver.fault_at_s < _FORGIVEN_S else 1
        driver.fault_at_s = now
        self._ask_later(driver, driver.faults)

    def _ask_later(self, driver: LaneDriver, times: int) -> None:
        delay_s = backoff_s(times - 1, _AGAIN_S, _PATIENCE_S) if times > 1 else 0.0
        self._due[driver] = min(now_s() + delay_s, self._due.get(driver, inf))
        self._asked.set()

    def forget(self, driver: LaneDriver) -> None:
        """The lane has ended."""
        self._due.pop(driver, None)

    async def keep(self) -> None:
        """Look leaders up when asked, and all of them now and then; until cancelled."""
        while True:
            now = now_s()
            if now >= self._all_at_s:
                self._all_at_s = now + _REFRESH_S
                self._doubt_replicas(now)
                self.look_up(self._drivers.values())
            due = [driver for driver, at_s in self._due.items() if at_s <= now]
            if due:
                await self._look(due)
                await pause(_AGAIN_S)
            else:
                await self._wait(min(self._due.values(), default=self._all_at_s) - now)

    async def _wait(self, most_s: float) -> None:
        self._asked.clear()
        try:
            async with asyncio.timeout(min(most_s, self._all_at_s - now_s())):
                await self._asked.wait()
        except TimeoutError:
            pass

    async def _look(self, due: list[LaneDriver]) -> None:
        for driver in due:
            self._due.pop(driver, None)
        try:
            await self.refresh([driver for driver in due if self._drivers.get(driver.name.source) is driver])
            self._failures = 0
        except (ConnectionLost, BrokerUnreachable):
            self._failures += 1
            again_s = now_s() + backoff_s(self._failures, _AGAIN_S)
            self._due.update((driver, again_s) for driver in due)

    def _doubt_replicas(self, now: float) -> None:
        """Let the leaders say anew, now and then, which replica is nearest (KIP-392)."""
        if now - self._nearest_at_s >= _NEAREST_S:
            self._nearest_at_s = now
            for driver in self._drivers.values():
                driver.replica = -1

    async def refresh(self, drivers: Iterable[LaneDriver]) -> None:
        """Look up the leaders of some lanes now. Raises ConnectionLost, BrokerUnreachable."""
        drivers = list(drivers)
        found: dict[str, dict[TopicPartition, Leader]] = {}

        async def ask(side: str, cluster: Cluster, partitions: set[TopicPartition]) -> None:
            found[side] = await cluster.leaders(sorted(partitions))

        targets = {partition for driver in drivers for partition in driver.fenced_partitions}
        await run_all(
            ask("source", self._source, {driver.name.source for driver in drivers}),
            ask("target", self._target, targets),
        )
        for driver in drivers:
            self._check_identity(driver, found["source"], found["target"])
            driver.source_leader = found["source"].get(driver.name.source, NOBODY)
            driver.target_leader = found["target"].get(driver.name.target, NOBODY)
            for appender in driver.beside:
                appender.leader = found["target"].get(appender.partition, NOBODY)
            leaders = (driver.source_leader, driver.target_leader, *(appender.leader for appender in driver.beside))
            driver.leaderless = driver.leaderless + 1 if any(leader.node == NOBODY.node for leader in leaders) else 0
            if driver.leaderless:
                self._ask_later(driver, driver.leaderless)
        self._settle(drivers)  # first: a lane must not append to a leader that may have lost records
        for driver in drivers:
            self._place(driver)

    def _check_identity(
        self, driver: LaneDriver, source: dict[TopicPartition, Leader], target: dict[TopicPartition, Leader]
    ) -> None:
        """Compare topic ids with those the lane began with (KIP-516): a name alone does not tell a re-created topic."""
        for side, found, partition, began in (
            ("source", source, driver.name.source, driver.source_topic_id),
            ("target", target, driver.name.target, driver.target_topic_id),
        ):
            now = found.get(partition, NOBODY).topic_id
            if began and now and began != now:
                self._changed(driver, side, partition.topic, began, now)
