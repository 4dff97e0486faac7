"""Which broker each lane talks to: one inbox and one outbox per broker and connection, lanes moved between them."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar

import msgspec

from engine.base.clock import backoff_s, now_s, pause
from engine.base.tasks import run_all, run_until
from engine.flow.io.buffers import BufferPool
from engine.flow.io.giving_back import GivingBack
from engine.flow.io.inbox import Inbox, InboxEvents
from engine.flow.io.leader_ends import LeaderEndVerifier
from engine.flow.io.leaders import Leaders
from engine.flow.io.lease_guard import LeaseGuard
from engine.flow.io.outbox import Outbox
from engine.flow.io.producer_expiry import ProducerExpiry
from engine.flow.lane.copier_metrics import CopierMetrics
from engine.flow.lane.in_flight import InFlightTracker
from engine.flow.lane.lane_driver import NOBODY, LaneDriver
from engine.flow.ports.options import FlowOptions
from engine.flow.ports.ports import Cluster
from policies.model import TopicPartition

Address = tuple[int, int]
"""A broker and one of our connections to it: a broker handles one request per connection at a time."""
Spawn = Callable[[Coroutine[Any, Any, None]], None]
Box = TypeVar("Box")
_CLOSE_S = 30.0
"""How long a broker is kept connected that no lane uses: leaders that move often move back."""
_LEAST_SHARES = 64
"""Of the memory: one partition gets no larger share in one fetch. Lanes that make up for an hour in small batches take
seconds to send a megabyte each; with little memory a few would hold all of it, and lanes in health would stand."""


class BrokerConnection(Generic[Box]):
    """An inbox or an outbox, the lanes that use it, and since when none does."""

    def __init__(self, address: Address, box: Box) -> None:
        self.address = address
        self.box = box
        self.lanes: dict[LaneDriver, None] = {}
        self.unused_at_s = now_s()
        self.closed = asyncio.Event()

    def leave(self, driver: LaneDriver) -> None:
        """A lane has gone elsewhere."""
        self.lanes.pop(driver, None)
        self.unused_at_s = now_s()


class LaneRoutes(msgspec.Struct):
    """The doors that a lane uses now; a lane keeps to one connection, so that order of sends is order of appends."""

    inbox: BrokerConnection[Inbox] | None = None
    outbox: BrokerConnection[Outbox] | None = None
    positions: BrokerConnection[Outbox] | None = None
    blocks: BrokerConnection[Outbox] | None = None

    @property
    def outboxes(self) -> tuple[BrokerConnection[Outbox] | None, ...]:
        """Those of the records, the positions and the map's blocks."""
        return self.outbox, self.positions, self.blocks


class BrokerRouter:
    """The brokers of both sides as the lanes see them."""

    def __init__(
        self,
        options: FlowOptions,
        source: Cluster,
        target: Cluster,
        drivers: dict[TopicPartition, LaneDriver],
        spawn: Spawn,
        events: InboxEvents,
        changed: Callable[[LaneDriver, str, str, str, str], None],
        lost: Callable[[LaneDriver, int], None],
        lease_guard: LeaseGuard,
        meter: CopierMetrics,
    ) -> None:
        self.pool = BufferPool(options.buffer_budget_bytes)
        self.giving_back = GivingBack(self.pool, drivers, self.can_send, self.wake, self._copy_out)
        self.leader_ends = LeaderEndVerifier(target, spawn, self.schedule_send, lost)
        self.expiry = ProducerExpiry(target, drivers)
        self.leaders = Leaders(source, target, drivers, self.place, changed, self._settle)
        self._options = options
        self._source = source
        self._target = target
        self._drivers = drivers
        self._spawn = spawn
        self._events = events
        self._lease_guard = lease_guard
        self._meter = meter
        self._inboxes: dict[Address, BrokerConnection[Inbox]] = {}
        self._outboxes: dict[Address, BrokerConnection[Outbox]] = {}
        self._lane_routes: dict[LaneDriver, LaneRoutes] = {}
        self._tracker = InFlightTracker()

    def _settle(self, drivers: list[LaneDriver]) -> None:
        self.expiry.mark(drivers)
        self.leader_ends.settle(drivers)

    # --- places ----------------------------------------------------------------------------------------------

    def place(self, driver: LaneDriver) -> None:
        """Let a lane use the brokers that its leaders name now, and say that it may have something for them."""
        if driver.target_leader.node < 0:
            driver.lane.rewind()  # nobody to send to: the receive buffers are for lanes that have somebody
        lane_routes = self._lane_routes.setdefault(driver, LaneRoutes())
        self._place_source(driver, lane_routes)
        before = lane_routes.outboxes
        turn = driver.turn % self._options.target_connections
        lane_routes.outbox = self._outbox((driver.target_leader.node, turn))
        lane_routes.positions = self._outbox((driver.position_appender.leader.node, turn))
        lane_routes.blocks = self._outbox((driver.block_appender.leader.node, turn))
        for old, new, appender in zip(before, lane_routes.outboxes, driver.appenders, strict=True):
            if old is not None and old not in lane_routes.outboxes:
                old.leave(driver)
            if old is not None and old is not new:
                old.box.forget(appender)
        for connection in lane_routes.outboxes:
            if connection is not None:
                connection.lanes[driver] = None
        self._kick(driver, lane_routes)

    def _place_source(self, driver: LaneDriver, lane_routes: LaneRoutes) -> None:
        connection = self._inbox((driver.source_node, driver.turn % self._options.source_connections))
        if lane_routes.inbox is not None and lane_routes.inbox is not connection:
            lane_routes.inbox.leave(driver)
        lane_routes.inbox = connection
        if connection is not None:
            connection.lanes[driver] = None
            connection.box.wake()

    def lose_source(self, driver: LaneDriver) -> None:
        """Fetch nothing for the lane until its leader was looked up again: the same fault would come at once."""
        driver.source_leader, driver.replica = NOBODY, -1
        self._place_source(driver, self._lane_routes.setdefault(driver, LaneRoutes()))
        self.leaders.look_up_later(driver)

    def read_from(self, driver: LaneDriver, replica: int) -> None:
        """Fetch from a replica that is nearer than the leader (KIP-392)."""
        driver.replica = replica
        self._place_source(driver, self._lane_routes.setdefault(driver, LaneRoutes()))

    def leave(self, driver: LaneDriver) -> None:
        """The lane has ended: keep nothing that names it."""
        self.leaders.forget(driver)
        self.giving_back.forget(driver)
        lane_routes = self._lane_routes.pop(driver, LaneRoutes())
        for connection in (lane_routes.inbox, *lane_routes.outboxes):
            if connection is not None:
                connection.leave(driver)
        for outbox in self._outboxes.values():
            for appender in driver.appenders:
                outbox.box.drop(appender)

    async def beyond_reach(self, drivers: Iterable[LaneDriver], *, hurry: bool = False) -> dict[LaneDriver, str]:
        """Try to connect to the leaders of lanes; return those that have one out of reach, and which and why.

        `hurry`: a leader that answers much later than others counts as one.
        """
        needs = {
            driver: (
                [driver.source_leader.node],
                [leader.node for leader in (driver.target_leader, *(one.leader for one in driver.beside))],
            )
            for driver in drivers
        }
        away: list[dict[int, str]] = [{}, {}]

        async def ask(side: int, cluster: Cluster) -> None:
            nodes = {node for need in needs.values() for node in need[side]} - {-1}
            away[side] = await cluster.unreachable(nodes, hurry=hurry)

        await run_all(ask(0, self._source), ask(1, self._target))
        if not any(away):
            return {}
        found: dict[LaneDriver, str] = {}
        for driver, need in needs.items():
            for name, there, nodes in zip(("source", "target"), away, need, strict=True):
                for node in nodes:
                    if node in there:
                        found[driver] = f"{name} broker {node} cannot be reached: {there[node]}"
        return found

    # --- brokers ---------------------------------------------------------------------------------------------

    def _inbox(self, address: Address) -> BrokerConnection[Inbox] | None:
        if address[0] < 0:
            return None
        connection = self._inboxes.get(address)
        if connection is None:
            lanes: dict[LaneDriver, None] = {}
            inbox = Inbox(
                connect=lambda: self._source.source_broker(address[0]),
                drivers=lambda: lanes,
                may_send=self.may_send,
                pool=self.pool,
                options=self._options.fetch,
                partition_bytes=min(self._options.partition_fetch_bytes, self.pool.budget_bytes // _LEAST_SHARES),
                pause=_back_off,
                events=msgspec.structs.replace(
                    self._events,
                    lost=lambda: self._inbox_lost(address),
                    silent=lambda: self._silent(self._inboxes.get(address)),
                ),
                meter=self._meter,
                inflated_bytes=self._options.inflated_bytes,
            )
            connection = self._inboxes[address] = BrokerConnection(address, inbox)
            connection.lanes = lanes
            self._spawn(run_until(connection.closed, inbox.run()))
        return connection

    def _outbox(self, address: Address) -> BrokerConnection[Outbox] | None:
        if address[0] < 0:
            return None
        connection = self._outboxes.get(address)
        if connection is None:
            outbox = Outbox(
                connect=lambda: self._target.target_broker(address[0]),
                pause=_back_off,
                on_lost=lambda: self._outbox_lost(address),
                on_open=lambda: self._outbox_open(address),
                request_timeout_s=self._options.request_timeout_s,
                lease_guard=self._lease_guard,
                meter=self._meter,
                tracker=self._tracker,
                on_silent=lambda: self._silent(self._outboxes.get(address)),
            )
            connection = self._outboxes[address] = BrokerConnection(address, outbox)
            self._spawn(run_until(connection.closed, outbox.run()))
        return connection

    def close_unused(self) -> None:
        """Close the connections to brokers that no lane has used for a while: they may have left the cluster."""
        _close_unused(self._inboxes)
        _close_unused(self._outboxes)

    def _inbox_lost(self, address: Address) -> None:
        """Lanes that read from this broker as their nearest replica go back to their leader."""
        lanes = list(self._inboxes[address].lanes) if address in self._inboxes else []
        for driver in lanes:
            driver.replica = -1
            driver.end.lose()
        self.leaders.look_up(lanes)

    def _outbox_open(self, address: Address) -> None:
        """There is room for more; lanes that had a connection before ask whether it leads to the same log."""
        lanes = list(self._outboxes[address].lanes) if address in self._outboxes else []
        for driver in lanes:
            if self._lane_routes[driver].outbox is self._outboxes[address]:
                self.leader_ends.doubt(driver)
        self.leaders.look_up(driver for driver in lanes if driver.doubted)
        self.wake_inboxes()

    def _outbox_lost(self, address: Address) -> None:
        """Lanes of a broker that is away give their receive buffers back; other lanes need them."""
        lanes = list(self._outboxes[address].lanes) if address in self._outboxes else []
        for driver in lanes:
            if self._lane_routes[driver].outbox is self._outboxes[address]:
                driver.lane.rewind()
                self.leader_ends.doubt(driver)
        self.leaders.look_up(lanes)

    def _silent(self, connection: BrokerConnection[Any] | None) -> None:
        """A broker takes requests and answers none: perhaps others lead by now."""
        self.leaders.look_up(connection.lanes if connection is not None else ())

    # --- traffic ---------------------------------------------------------------------------------------------

    def may_send(self, driver: LaneDriver) -> bool:
        """Whether the lane may be fetched now: what is fetched could be sent on.

        Lanes of a broker whose quota is used up leave half of the memory to others: they send what they have first.
        """
        outbox = self._lane_routes[driver].outbox
        if outbox is None or not outbox.box.open or not self._lease_guard.is_open or self.giving_back.holds(driver):
            return False
        return not (outbox.box.throttled and driver.lane.queued_bytes and self.pool.is_half_used)

    def is_answered(self, driver: LaneDriver) -> bool:
        """Whether the target brokers that the lane writes to answer, as far as one can see."""
        connections = self._lane_routes.get(driver, LaneRoutes()).outboxes
        return all(connection is not None and connection.box.answers for connection in connections)

    def can_send(self, driver: LaneDriver) -> bool:
        """Whether nothing known keeps batches of the lane from going out, those too that a position goes before."""
        lane_routes, transaction = self._lane_routes.get(driver, LaneRoutes()), driver.transaction
        return (
            lane_routes.outbox is not None
            and lane_routes.outbox.box.moves
            and lane_routes.positions is not None
            and lane_routes.positions.box.moves
            and not driver.doubted
            and not driver.positions.writing
            and (transaction is None or transaction.between_steps)
            and not self._tracker.elsewhere(driver, lane_routes.outbox.box)
            and self._lease_guard.is_open
        )

    def _copy_out(self, after_s: float) -> None:
        for connection in self._outboxes.values():
            connection.box.copy_out(after_s)

    def obstacle(self, driver: LaneDriver) -> str:
        """Say what keeps the lane from being fetched or sent just now; empty where nothing of the way does."""
        if not self._lease_guard.is_open:
            return "waits for its lease: the supervisor cannot see that the flow is still its own, or does not answer"
        for side, leader, partition in (
            ("source", driver.source_leader, driver.name.source),
            ("target", driver.target_leader, driver.name.target),
            ("positions", driver.position_appender.leader, driver.position_appender.partition),
            ("offset map", driver.block_appender.leader, driver.block_appender.partition),
        ):
            if leader.node < 0:
                return f"no leader for {side} partition {partition}"
        lane_routes = self._lane_routes.get(driver, LaneRoutes())
        if driver.doubted:
            return f"waits to hear from target broker {driver.target_leader.node} where its log ends"
        if lane_routes.outbox is None or not lane_routes.outbox.box.open:
            return f"no connection to target broker {driver.target_leader.node}"
        if self._tracker.elsewhere(driver, lane_routes.outbox.box):
            return "waits for the last answers of the target broker that led before"
        if lane_routes.inbox is None or not lane_routes.inbox.box.connected:
            return f"no connection to source broker {driver.source_node}"
        if lane_routes.outbox.box.throttled:
            return f"throttled by the quota of target broker {driver.target_leader.node}"
        return (
            f"throttled by the quota of source broker {driver.source_node}" if lane_routes.inbox.box.throttled else ""
        )

    def schedule_send(self, drivers: Iterable[LaneDriver]) -> None:
        """These lanes may have something to send: records or positions."""
        for driver in drivers:
            lane_routes = self._lane_routes.get(driver)
            if lane_routes is not None:
                self._kick(driver, lane_routes)

    @staticmethod
    def _kick(driver: LaneDriver, lane_routes: LaneRoutes) -> None:
        if lane_routes.outbox is not None:
            lane_routes.outbox.box.schedule_send(driver)
        if lane_routes.positions is not None:
            lane_routes.positions.box.schedule_send(driver.position_appender)
        if lane_routes.blocks is not None and (driver.blocks.due or driver.blocks.writing):
            lane_routes.blocks.box.schedule_send(driver.block_appender)

    def wake(self, driver: LaneDriver) -> None:
        """The lane may have room for more."""
        lane_routes = self._lane_routes.get(driver)
        if lane_routes is not None and lane_routes.inbox is not None:
            lane_routes.inbox.box.wake()

    def wake_inboxes(self) -> None:
        """Any lane may have room for more."""
        for connection in self._inboxes.values():
            connection.box.wake()

    def go_on(self) -> None:
        """The gate has opened: whatever waited for it may be sent and fetched."""
        for connection in self._outboxes.values():
            connection.box.pump()
        self.wake_inboxes()


def _close_unused(connections: dict[Address, BrokerConnection[Box]]) -> None:
    before = now_s() - _CLOSE_S
    for address, connection in list(connections.items()):
        if not connection.lanes and connection.unused_at_s < before:
            connection.closed.set()
            del connections[address]


async def _back_off(attempt: int) -> None:
    await pause(backoff_s(attempt))
