"""Which broker each lane talks to: leaders looked up, one inbox and one outbox per broker, lanes moved between them."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import msgspec

from engine.clock import backoff_s, now_s, pause
from engine.errors import BrokerUnreachable, ConnectionLost
from engine.flow.appender import Appender
from engine.flow.buffers import BufferPool
from engine.flow.gate import Gate
from engine.flow.inbox import Inbox, InboxEvents
from engine.flow.lane_driver import NOBODY, LaneDriver
from engine.flow.meter import FlowMeter
from engine.flow.outbox import Outbox
from engine.flow.ports import Cluster, Leader
from engine.flow.terms import FlowTerms
from engine.tasks import run_all
from policies.model import TopicPartition

Door = tuple[int, int]
"""A broker and one of our connections to it: a broker handles one request per connection at a time."""
Spawn = Callable[[Coroutine[Any, Any, None]], None]
_REFRESH_S = 30.0
_NEAREST_S = 300.0
"""How long a nearest replica is believed to be one: it may have fallen behind, and only the leader would know."""
_AGAIN_S = 0.1
"""Least time between two look-ups: a leader election takes longer than that anyway."""


class Routes:
    """The brokers of both sides as the lanes see them."""

    def __init__(
        self,
        terms: FlowTerms,
        source: Cluster,
        target: Cluster,
        drivers: dict[TopicPartition, LaneDriver],
        spawn: Spawn,
        events: InboxEvents,
        changed: Callable[[LaneDriver, str, str, str, str], None],
        gate: Gate,
        meter: FlowMeter,
    ) -> None:
        self._changed = changed
        self._gate = gate
        self._meter = meter
        self.pool = BufferPool(terms.buffer_budget_bytes)
        self._terms = terms
        self._source = source
        self._target = target
        self._drivers = drivers
        self._spawn = spawn
        self._events = events
        self._inboxes: dict[Door, Inbox] = {}
        self._outboxes: dict[Door, Outbox] = {}
        self._stale = asyncio.Event()
        self._nearest_at = now_s()

    # --- leaders ---------------------------------------------------------------------------------------------

    def look_up(self) -> None:
        """Ask for a look-up of all leaders soon."""
        self._stale.set()

    def lose_source(self, driver: LaneDriver) -> None:
        """Fetch nothing for the lane until its leader was looked up again: the same fault would come at once."""
        driver.source_leader = NOBODY
        self._stale.set()

    async def keep(self) -> None:
        """Look leaders up when asked, and now and then; until cancelled."""
        while True:
            try:
                async with asyncio.timeout(_REFRESH_S):
                    await self._stale.wait()
            except TimeoutError:
                pass
            self._stale.clear()
            self._doubt_replicas()
            try:
                await self.refresh(list(self._drivers.values()))
            except (ConnectionLost, BrokerUnreachable):
                self._stale.set()
            await pause(_AGAIN_S)

    def _doubt_replicas(self) -> None:
        """Let the leaders say anew, now and then, which replica is nearest (KIP-392)."""
        if now_s() - self._nearest_at >= _NEAREST_S:
            self._nearest_at = now_s()
            for driver in self._drivers.values():
                driver.replica = -1

    async def refresh(self, drivers: Iterable[LaneDriver]) -> None:
        """Look up the leaders of some lanes and open what is missing. Raises ConnectionLost, BrokerUnreachable."""
        drivers = list(drivers)
        found: dict[str, dict[TopicPartition, Leader]] = {}

        async def ask(side: str, cluster: Cluster, partitions: set[TopicPartition]) -> None:
            found[side] = await cluster.leaders(sorted(partitions))

        positions = {driver.position_appender.partition for driver in drivers}
        await run_all(
            ask("source", self._source, {driver.name.source for driver in drivers}),
            ask("target", self._target, {driver.name.target for driver in drivers} | positions),
        )
        for driver in drivers:
            self._check_identity(driver, found["source"], found["target"])
            driver.source_leader = found["source"].get(driver.name.source, NOBODY)
            driver.target_leader = found["target"].get(driver.name.target, NOBODY)
            driver.positions_leader = found["target"].get(driver.position_appender.partition, NOBODY)
            if NOBODY.node in (driver.source_leader.node, driver.target_leader.node, driver.positions_leader.node):
                self._stale.set()
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

    def _place(self, driver: LaneDriver) -> None:
        if driver.target_leader.node < 0:
            driver.lane.rewind()  # nobody to send to: the receive buffers are for lanes that have somebody
        if driver.source_node >= 0:
            self._inbox(self._source_door(driver)).wake()
        for appender, door in self._appenders(driver):
            for other, outbox in self._outboxes.items():
                if other != door:
                    outbox.forget(appender)
            if door[0] >= 0:
                self._outbox(door).kick(appender)

    def _source_door(self, driver: LaneDriver) -> Door:
        return driver.source_node, driver.turn % self._terms.source_connections

    def _target_door(self, driver: LaneDriver) -> Door:
        return driver.target_leader.node, driver.turn % self._terms.target_connections

    def _appenders(self, driver: LaneDriver) -> tuple[tuple[Appender, Door], tuple[Appender, Door]]:
        """A lane keeps to one connection, so that the order of sends is the order of appends."""
        positions = driver.positions_leader.node, driver.turn % self._terms.target_connections
        return (driver, self._target_door(driver)), (driver.position_appender, positions)

    # --- brokers ---------------------------------------------------------------------------------------------

    def _inbox(self, door: Door) -> Inbox:
        inbox = self._inboxes.get(door)
        if inbox is None:
            inbox = self._inboxes[door] = Inbox(
                connect=lambda: self._source.source_broker(door[0]),
                drivers=lambda: [d for d in self._drivers.values() if self._source_door(d) == door],
                may_send=self.may_send,
                pool=self.pool,
                terms=self._terms.fetch,
                partition_bytes=self._terms.partition_fetch_bytes,
                pause=_back_off,
                events=msgspec.structs.replace(self._events, lost=lambda: self._inbox_lost(door[0])),
                meter=self._meter,
            )
            self._spawn(inbox.run())
        return inbox

    def _outbox(self, door: Door) -> Outbox:
        outbox = self._outboxes.get(door)
        if outbox is None:
            outbox = self._outboxes[door] = Outbox(
                connect=lambda: self._target.target_broker(door[0]),
                pause=_back_off,
                on_lost=lambda: self._outbox_lost(door),
                on_open=self.wake_inboxes,
                request_timeout_s=self._terms.request_timeout_s,
                gate=self._gate,
                meter=self._meter,
            )
            self._spawn(outbox.run())
        return outbox

    def _inbox_lost(self, node: int) -> None:
        """Lanes that read from this broker as their nearest replica go back to their leader."""
        for driver in self._drivers.values():
            if driver.replica == node:
                driver.replica = -1
        self._events.lost()

    def _outbox_lost(self, door: Door) -> None:
        """Lanes of a broker that is away give their receive buffers back; other lanes need them."""
        for driver in self._drivers.values():
            if self._target_door(driver) == door:
                driver.lane.rewind()
        self.look_up()

    # --- traffic ---------------------------------------------------------------------------------------------

    def may_send(self, driver: LaneDriver) -> bool:
        """Whether the lane may be fetched now: what is fetched could be sent on."""
        if not self._gate.is_open:
            return False
        outbox = self._outboxes.get(self._target_door(driver))
        return outbox is not None and outbox.open

    def obstacle(self, driver: LaneDriver) -> str:
        """Say what keeps the lane from being fetched or sent just now; empty where nothing of the way does."""
        if not self._gate.is_open:
            return "waits for its lease: no supervisor has renewed it"
        for side, leader, partition in (
            ("source", driver.source_leader, driver.name.source),
            ("target", driver.target_leader, driver.name.target),
            ("positions", driver.positions_leader, driver.position_appender.partition),
        ):
            if leader.node < 0:
                return f"no leader for {side} partition {partition}"
        outbox = self._outboxes.get(self._target_door(driver))
        inbox = self._inboxes.get(self._source_door(driver))
        if outbox is None or not outbox.open:
            return f"no connection to target broker {driver.target_leader.node}"
        if inbox is None or not inbox.connected:
            return f"no connection to source broker {driver.source_node}"
        if outbox.throttled:
            return f"throttled by the quota of target broker {driver.target_leader.node}"
        return f"throttled by the quota of source broker {driver.source_node}" if inbox.throttled else ""

    def kick(self, drivers: Iterable[LaneDriver]) -> None:
        """These lanes may have something to send: records or positions."""
        for driver in drivers:
            for appender, door in self._appenders(driver):
                outbox = self._outboxes.get(door)
                if outbox is not None:
                    outbox.kick(appender)

    def wake(self, driver: LaneDriver) -> None:
        """The lane may have room for more."""
        inbox = self._inboxes.get(self._source_door(driver))
        if inbox is not None:
            inbox.wake()

    def wake_inboxes(self) -> None:
        """Any lane may have room for more."""
        for inbox in self._inboxes.values():
            inbox.wake()

    def go_on(self) -> None:
        """The gate has opened: whatever waited for it may be sent and fetched."""
        for outbox in self._outboxes.values():
            outbox.pump()
        self.wake_inboxes()

    def leave(self, driver: LaneDriver) -> None:
        """The lane has ended: keep nothing that names it."""
        for outbox in self._outboxes.values():
            outbox.drop(driver)
            outbox.drop(driver.position_appender)


async def _back_off(attempt: int) -> None:
    await pause(backoff_s(attempt))
