"""Keeps the partition leaders of all lanes: looked up when a lane asks, and every 30 s (`metadata.max.age.ms`).

A lane without an answer asks at growing intervals. Each cluster has its own loop, so that a cluster that does not
answer does not delay the other.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from math import inf
from typing import Protocol

from engine.base.clock import Turns, now_s, pause
from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.base.parts import parts
from engine.base.tasks import run_all
from engine.flow.context.copier_context import CopierContext
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.lane.lane_events import LeaderEvents
from engine.flow.lane.lane_leaders import NOBODY
from engine.flow.ports.options import ClusterPace
from engine.flow.ports.ports import Cluster, Leader
from policies.model import TopicPartition

_NEAREST_S = 300.0
"""Seconds that a nearest replica is used: it may have fallen behind, and only the leader would know."""
_AGAIN_S = 0.1
"""Least time between two look-ups: a leader election takes longer than that anyway."""
_REST_OF_ALL = 30
"""How many times as long as a look-up of all lanes took the next one waits at least: tens of thousands take seconds."""
_NOTED_AT_ONCE = 50
"""Lanes whose leaders are noted before other tasks of the loop may run: a thousand take it some milliseconds."""

Found = dict[TopicPartition, Leader]


class LeaderUsers(Protocol):
    """The part that acts on the leaders that were found (`BrokerRouter`)."""

    def verify(self, drivers: Sequence[LaneDriver]) -> None:
        """The target leaders of some lanes were looked up: they may append to those that are verified only."""

    def place(self, driver: LaneDriver) -> None:
        """The leaders of a lane were looked up: use their brokers."""


class ClusterLeaders(ABC):
    """The leaders of one cluster."""

    def __init__(
        self,
        cluster: Cluster,
        drivers: dict[TopicPartition, LaneDriver],
        users: LeaderUsers,
        events: LeaderEvents,
        pace: ClusterPace,
    ) -> None:
        self._cluster = cluster
        self._pace = pace
        self._drivers = drivers
        self._users = users
        self._events = events
        self._due: dict[LaneDriver, float] = {}
        self._leaderless: dict[LaneDriver, int] = {}
        """Look-ups in a row that found some partition of a lane without a leader."""
        self._asked = asyncio.Event()
        self._all_at_s = now_s() + pace.leaders_s
        self._failures = 0

    def look_up(self, driver: LaneDriver, times: int = 1) -> None:
        """Ask for a look-up of a lane, `times` times in a row by now: the first at once, later ones with a back-off."""
        after_s = self._pace.retry.after_s(times - 1) if times > 1 else 0.0
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
    def note_lane(self, driver: LaneDriver, found: Found) -> bool:
        """Note a lane's leaders; return whether all of its partitions have one."""

    @abstractmethod
    def use(self, drivers: Sequence[LaneDriver]) -> None:
        """Let some lanes use the leaders that were noted."""

    def look_up_all(self) -> None:
        """Ask for a look-up of all lanes."""
        for driver in self._drivers.values():
            self.look_up(driver)

    async def find(self, drivers: Iterable[LaneDriver]) -> Found:
        """Look up the leaders of some lanes. Raises ConnectionLost, BrokerUnreachable."""
        return await self._cluster.leaders(sorted({one for driver in drivers for one in self.wanted(driver)}))

    def note(self, drivers: Iterable[LaneDriver], found: Found) -> None:
        """Note the leaders of some lanes, and ask again for lanes without a leader."""
        for driver in drivers:
            if self.note_lane(driver, found) or not self._is_here(driver):
                self._leaderless.pop(driver, None)
            else:
                times = self._leaderless[driver] = self._leaderless.get(driver, 0) + 1
                self.look_up(driver, times)

    async def keep(self) -> None:
        """Look leaders up when asked, and all of them from time to time, until cancelled."""
        while True:
            now = now_s()
            looks_at_all = now >= self._all_at_s
            if looks_at_all:
                self.look_up_all()
            due = [driver for driver, at_s in self._due.items() if at_s <= now]
            if due:
                await self._look(due)
            took_s = now_s() - now
            if looks_at_all:
                self._all_at_s = now + max(self._pace.leaders_s, _REST_OF_ALL * took_s)
            if due:
                await pause(max(_AGAIN_S, took_s))
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
        lanes = self._here(due)
        try:
            found = await self.find(lanes)
        except (ConnectionLost, BrokerUnreachable):
            self._failures += 1
            again_s = now_s() + self._pace.retry.after_s(self._failures)
            self._due.update((driver, again_s) for driver in lanes)
            return
        self._failures = 0
        turns = Turns()
        for some in parts(lanes, _NOTED_AT_ONCE):
            await turns.rest()
            here = self._here(some)
            self.note(here, found)
            self.use(here)

    def _here(self, lanes: Iterable[LaneDriver]) -> list[LaneDriver]:
        return [driver for driver in lanes if self._is_here(driver)]

    def _is_here(self, driver: LaneDriver) -> bool:
        return self._drivers.get(driver.name.source) is driver


class SourceLeaders(ClusterLeaders):
    """The leaders of source partitions."""

    def __init__(self, context: CopierContext, users: LeaderUsers, events: LeaderEvents) -> None:
        super().__init__(context.source, context.drivers, users, events, context.options.source_pace)
        self._nearest_at_s = now_s()

    def wanted(self, driver: LaneDriver) -> list[TopicPartition]:
        """Return the partitions of a lane in this cluster."""
        return [driver.name.source]

    def note_lane(self, driver: LaneDriver, found: Found) -> bool:
        """Note a lane's leaders; return whether all of its partitions have one."""
        partition = driver.name.source
        _check_identity(driver, "source", driver.ownership.source_topic_id, partition, found, self._events)
        driver.leaders.lead_source(found.get(partition, NOBODY))
        return driver.leaders.source.node >= 0

    def use(self, drivers: Sequence[LaneDriver]) -> None:
        """Let some lanes use the leaders that were noted."""
        for driver in drivers:
            self._users.place(driver)

    def look_up_all(self) -> None:
        """Ask for a look-up of all lanes; every 300 s the leaders name the nearest replicas again (KIP-392)."""
        if now_s() - self._nearest_at_s >= _NEAREST_S:
            self._nearest_at_s = now_s()
            for driver in self._drivers.values():
                driver.leaders.read_from(None)
        super().look_up_all()


class TargetLeaders(ClusterLeaders):
    """The leaders of target partitions: of the records, the positions and the map's blocks."""

    def wanted(self, driver: LaneDriver) -> list[TopicPartition]:
        """Return the partitions of a lane in this cluster."""
        return driver.fenced_partitions

    def note_lane(self, driver: LaneDriver, found: Found) -> bool:
        """Note a lane's leaders; return whether all of its partitions have one."""
        _check_identity(driver, "target", driver.ownership.target_topic_id, driver.name.target, found, self._events)
        driver.leaders.lead_target(found.get(driver.name.target, NOBODY))
        for appender in driver.auxiliary:
            appender.leader = found.get(appender.partition, NOBODY)
            if appender.topic_id and appender.leader.topic_id not in ("", appender.topic_id):
                # Re-created: appends that name the previous topic are refused for ever (UNKNOWN_TOPIC_ID, 100).
                self._cluster.forget_topic(appender.partition.topic)
            appender.topic_id = appender.leader.topic_id or appender.topic_id
        return driver.leaders.target.node >= 0 and all(one.leader.node >= 0 for one in driver.auxiliary)

    def use(self, drivers: Sequence[LaneDriver]) -> None:
        """Let some lanes use the leaders that were noted."""
        self._users.verify(drivers)  # first: a lane must not append to a leader that may have lost records
        for driver in drivers:
            self._users.place(driver)


class Leaders:
    """Keeps the leaders of all lanes of one copier."""

    def __init__(self, context: CopierContext, users: LeaderUsers, events: LeaderEvents) -> None:
        self.source: ClusterLeaders = SourceLeaders(context, users, events)
        self.target: ClusterLeaders = TargetLeaders(
            context.target, context.drivers, users, events, context.options.target_pace
        )

    def look_up(self, drivers: Iterable[LaneDriver]) -> None:
        """Ask for a look-up of some lanes soon, on both sides."""
        for driver in drivers:
            self.source.look_up(driver)
            self.target.look_up(driver)

    def look_up_later(self, driver: LaneDriver) -> None:
        """Ask for a look-up after a fault of this lane at the source: the first at once, later ones with a back-off."""
        self.source.look_up(driver, driver.leaders.count_fault(now_s()))

    def forget(self, driver: LaneDriver) -> None:
        """Forget a lane that has ended."""
        self.source.forget(driver)
        self.target.forget(driver)

    async def keep(self) -> None:
        """Look leaders up when asked, and all of them from time to time, until cancelled."""
        await run_all(self.source.keep(), self.target.keep())

    async def refresh(self, drivers: Iterable[LaneDriver]) -> None:
        """Look up the leaders of some lanes now. Raises ConnectionLost, BrokerUnreachable."""
        drivers = list(drivers)
        found: dict[ClusterLeaders, Found] = {}

        async def ask(side: ClusterLeaders) -> None:
            found[side] = await side.find(drivers)

        await run_all(ask(self.source), ask(self.target))
        self.source.note(drivers, found[self.source])
        self.target.note(drivers, found[self.target])
        self.target.use(drivers)


def _check_identity(
    driver: LaneDriver, side: str, began: str, partition: TopicPartition, found: Found, events: LeaderEvents
) -> None:
    """Compare a topic's id with the one the lane began with (KIP-516): the name does not show a re-created topic."""
    now = found.get(partition, NOBODY).topic_id
    if began and now and began != now:
        events.changed_topic(driver, side, partition.topic, began, now)
