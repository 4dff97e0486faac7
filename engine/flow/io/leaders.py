"""Keeps the partition leaders of all lanes: looked up when a lane asks, and every 30 s.

A lane without an answer asks at growing intervals. Each cluster has its own loop, so that a cluster that does not
answer does not delay the other.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from math import inf

from engine.base.clock import backoff_s, now_s, pause
from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.base.tasks import run_all
from engine.flow.lane.lane_driver import NOBODY, LaneDriver
from engine.flow.ports.ports import Cluster, Leader
from policies.model import TopicPartition

_REFRESH_S = 30.0
_NEAREST_S = 300.0
"""How long a nearest replica counts as one: it may have fallen behind, and only the leader would know."""
_AGAIN_S = 0.1
"""Least time between two look-ups: a leader election takes longer than that anyway."""
_PATIENCE_S = 1.0
"""Most time between two look-ups that a lane asks for: so long may a lane stand still after its leader is elected."""
_FORGIVEN_S = 30.0
"""After so long without a fault, the count of a lane's faults begins again."""

Changed = Callable[[LaneDriver, str, str, str, str], None]
Found = dict[TopicPartition, Leader]


class ClusterLeaders(ABC):
    """The leaders of one cluster; `take` notes what was looked up for a lane."""

    def __init__(self, cluster: Cluster, drivers: dict[TopicPartition, LaneDriver]) -> None:
        self._cluster = cluster
        self._drivers = drivers
        self._due: dict[LaneDriver, float] = {}
        self._leaderless: dict[LaneDriver, int] = {}
        """Look-ups in a row that found some partition of a lane without a leader."""
        self._asked = asyncio.Event()
        self._all_at_s = now_s() + _REFRESH_S
        self._failures = 0

    def look_up(self, driver: LaneDriver, times: int = 1) -> None:
        """Ask for a look-up of a lane, `times` times in a row by now: the first at once, later ones with a back-off."""
        after_s = backoff_s(times - 1, _AGAIN_S, _PATIENCE_S) if times > 1 else 0.0
        self._due[driver] = min(now_s() + after_s, self._due.get(driver, inf))
        self._asked.set()

    def forget(self, driver: LaneDriver) -> None:
        """Forget a lane that has ended."""
        self._due.pop(driver, None)
        self._leaderless.pop(driver, None)

    @abstractmethod
    def wanted(self, driver: LaneDriver) -> list[TopicPartition]:
        """Return the partitions of a lane in this cluster."""

    @abstractmethod
    def take(self, driver: LaneDriver, found: Found) -> bool:
        """Note a lane's leaders; return whether all of its partitions have one."""

    async def find(self, drivers: Iterable[LaneDriver]) -> Found:
        """Look up the leaders of some lanes. Raises ConnectionLost, BrokerUnreachable."""
        return await self._cluster.leaders(sorted({one for driver in drivers for one in self.wanted(driver)}))

    def note(self, drivers: Iterable[LaneDriver], found: Found) -> None:
        """Note the leaders of some lanes, and ask again for lanes without a leader."""
        for driver in drivers:
            if self.take(driver, found) or not self._is_here(driver):
                self._leaderless.pop(driver, None)
            else:
                times = self._leaderless[driver] = self._leaderless.get(driver, 0) + 1
                self.look_up(driver, times)

    async def keep(self, placed: Callable[[list[LaneDriver]], None], refreshed: Callable[[float], None]) -> None:
        """Look leaders up when asked, and all of them every 30 s, until cancelled."""
        while True:
            now = now_s()
            if now >= self._all_at_s:
                self._all_at_s = now + _REFRESH_S
                refreshed(now)
                for driver in self._drivers.values():
                    self.look_up(driver)
            due = [driver for driver, at_s in self._due.items() if at_s <= now]
            if due:
                await self._look(due, placed)
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

    async def _look(self, due: list[LaneDriver], placed: Callable[[list[LaneDriver]], None]) -> None:
        for driver in due:
            self._due.pop(driver, None)
        lanes = self._here(due)
        try:
            found = await self.find(lanes)
        except (ConnectionLost, BrokerUnreachable):
            self._failures += 1
            again_s = now_s() + backoff_s(self._failures, _AGAIN_S, _PATIENCE_S)
            self._due.update((driver, again_s) for driver in lanes)
            return
        self._failures = 0
        lanes = self._here(lanes)
        self.note(lanes, found)
        placed(lanes)

    def _here(self, lanes: Iterable[LaneDriver]) -> list[LaneDriver]:
        return [driver for driver in lanes if self._is_here(driver)]

    def _is_here(self, driver: LaneDriver) -> bool:
        return self._drivers.get(driver.name.source) is driver


class _SourceLeaders(ClusterLeaders):
    def __init__(self, cluster: Cluster, drivers: dict[TopicPartition, LaneDriver], changed: Changed) -> None:
        super().__init__(cluster, drivers)
        self._changed = changed

    def wanted(self, driver: LaneDriver) -> list[TopicPartition]:
        return [driver.name.source]

    def take(self, driver: LaneDriver, found: Found) -> bool:
        partition = driver.name.source
        _check_identity(driver, "source", driver.source_topic_id, partition, found, self._changed)
        driver.source_leader = found.get(partition, NOBODY)
        return driver.source_leader.node >= 0


class _TargetLeaders(ClusterLeaders):
    def __init__(self, cluster: Cluster, drivers: dict[TopicPartition, LaneDriver], changed: Changed) -> None:
        super().__init__(cluster, drivers)
        self._changed = changed

    def wanted(self, driver: LaneDriver) -> list[TopicPartition]:
        return driver.fenced_partitions

    def take(self, driver: LaneDriver, found: Found) -> bool:
        _check_identity(driver, "target", driver.target_topic_id, driver.name.target, found, self._changed)
        driver.target_leader = found.get(driver.name.target, NOBODY)
        for appender in driver.beside:
            appender.leader = found.get(appender.partition, NOBODY)
            if appender.topic_id and appender.leader.topic_id not in ("", appender.topic_id):
                # Re-created: appends that name the former topic are refused for ever (UNKNOWN_TOPIC_ID, 100).
                self._cluster.forget_topic(appender.partition.topic)
            appender.topic_id = appender.leader.topic_id or appender.topic_id
        return driver.target_leader.node >= 0 and all(one.leader.node >= 0 for one in driver.beside)


class Leaders:
    """Keeps the leaders of all lanes; `settle` and `place` are called for the lanes that were looked up."""

    def __init__(
        self,
        source: Cluster,
        target: Cluster,
        drivers: dict[TopicPartition, LaneDriver],
        place: Callable[[LaneDriver], None],
        changed: Changed,
        settle: Callable[[list[LaneDriver]], None],
    ) -> None:
        self.source: ClusterLeaders = _SourceLeaders(source, drivers, changed)
        self.target: ClusterLeaders = _TargetLeaders(target, drivers, changed)
        self._settle = settle
        self._drivers = drivers
        self._place = place
        self._nearest_at_s = now_s()

    def look_up(self, drivers: Iterable[LaneDriver]) -> None:
        """Ask for a look-up of some lanes soon, on both sides."""
        for driver in drivers:
            self.source.look_up(driver)
            self.target.look_up(driver)

    def look_up_later(self, driver: LaneDriver) -> None:
        """Ask for a look-up after a fault of this lane at the source: the first at once, later ones with a back-off."""
        now = now_s()
        driver.faults = driver.faults + 1 if now - driver.fault_at_s < _FORGIVEN_S else 1
        driver.fault_at_s = now
        self.source.look_up(driver, driver.faults)

    def forget(self, driver: LaneDriver) -> None:
        """Forget a lane that has ended."""
        self.source.forget(driver)
        self.target.forget(driver)

    async def keep(self) -> None:
        """Look leaders up when asked, and all of them every 30 s, until cancelled."""
        await run_all(
            self.source.keep(self._place_all, self._doubt_replicas), self.target.keep(self._settled, lambda _now: None)
        )

    async def refresh(self, drivers: Iterable[LaneDriver]) -> None:
        """Look up the leaders of some lanes now. Raises ConnectionLost, BrokerUnreachable."""
        drivers = list(drivers)
        found: dict[ClusterLeaders, Found] = {}

        async def ask(side: ClusterLeaders) -> None:
            found[side] = await side.find(drivers)

        await run_all(ask(self.source), ask(self.target))
        self.source.note(drivers, found[self.source])
        self.target.note(drivers, found[self.target])
        self._settled(drivers)

    def _settled(self, drivers: list[LaneDriver]) -> None:
        self._settle(drivers)  # first: a lane must not append to a leader that may have lost records
        self._place_all(drivers)

    def _place_all(self, drivers: list[LaneDriver]) -> None:
        for driver in drivers:
            self._place(driver)

    def _doubt_replicas(self, now: float) -> None:
        """Forget the nearest replicas every 300 s, so that the leaders name them again (KIP-392)."""
        if now - self._nearest_at_s >= _NEAREST_S:
            self._nearest_at_s = now
            for driver in self._drivers.values():
                driver.replica = -1


def _check_identity(
    driver: LaneDriver, side: str, began: str, partition: TopicPartition, found: Found, changed: Changed
) -> None:
    """Compare a topic's id with the one the lane began with (KIP-516): the name does not show a re-created topic."""
    now = found.get(partition, NOBODY).topic_id
    if began and now and began != now:
        changed(driver, side, partition.topic, began, now)
