"""Assigns lanes to brokers: one inbox and one outbox per broker and connection, and lanes move between them."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import Generic, TypeVar

import msgspec

from engine.base.clock import now_s, pause
from engine.base.tasks import run_all, run_until
from engine.flow.context.copier_context import CopierContext
from engine.flow.io.buffers import BufferPool
from engine.flow.io.giving_back import GivingBack
from engine.flow.io.inbox import Inbox, InboxLimits
from engine.flow.io.leader_ends import LeaderEndVerifier
from engine.flow.io.leaders import Leaders
from engine.flow.io.obstacles import Way, obstacle
from engine.flow.io.outbox import Outbox, OutboxLimits
from engine.flow.io.producer_expiry import ProducerExpiry
from engine.flow.io.range_reader import RangeLimits
from engine.flow.io.slice_intake import IntakeRules
from engine.flow.lane.in_flight import InFlightTracker
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.lane.lane_events import LaneEvents
from engine.flow.ports.options import ClusterPace
from engine.flow.ports.ports import Cluster, SourceBroker, TargetBroker
from engine.flow.turns.fetch_turns import FetchTurns
from policies.traffic import Priority, TrafficRules

Address = tuple[int, int]
"""A broker and the number of a connection to it: a broker handles one request per connection at a time."""
_CLASSES = (Priority.NORMAL, Priority.HIGH, Priority.LOW)
"""The order of the classes' connections: without classes, the first ones are used."""
Box = TypeVar("Box", Inbox, Outbox)
_IN_FLIGHT = 2
"""This part (1/2) of the memory budget may be in flight to target brokers; the rest is for what the source sends."""
_CLOSE_S = 30.0
"""Seconds that a connection without lanes stays open: leaders that move often move back."""
_LEAST_RANGES = 8
"""One range has at most this part (1/8) of the memory."""
_LEAST_SHARES = 64
"""One partition gets at most this part (1/64) of the memory in one fetch, and nothing while as much waits unsent. Lanes
with a backlog of an hour in small batches need seconds to send a megabyte; with little memory a few would hold all of
it, and healthy lanes would stop."""


class BrokerConnection(ABC, Generic[Box]):
    """One connection to a broker: its inbox or outbox, the lanes that use it, and since when no lane uses it."""

    box: Box

    def __init__(self, router: "BrokerRouter", address: Address) -> None:
        self.router = router
        self.address = address
        self.lanes: dict[LaneDriver, None] = {}
        self.unused_at_s = now_s()
        self.closed = asyncio.Event()

    @property
    def node(self) -> int:
        """The broker."""
        return self.address[0]

    def leave(self, driver: LaneDriver) -> None:
        """Remove a lane that uses another connection now."""
        self.lanes.pop(driver, None)
        self.unused_at_s = now_s()

    @property
    @abstractmethod
    def pace(self) -> ClusterPace:
        """How often the cluster is asked again."""

    async def back_off(self, attempt: int) -> None:
        """Wait before another attempt to connect."""
        await pause(self.pace.reconnect.after_s(attempt))

    def silent(self) -> None:
        """The broker takes requests and answers none: other brokers may lead by now."""
        self.router.leaders.look_up(self.lanes)


class SourceConnection(BrokerConnection[Inbox]):
    """A connection to a source broker."""

    @property
    def pace(self) -> ClusterPace:
        """How often the source is asked again."""
        return self.router.context.options.source_pace

    async def connect(self) -> SourceBroker:
        """Open the connection. Raises BrokerUnreachable, ConnectionLost."""
        return await self.router.context.source.source_broker(self.node)

    async def connect_beside(self) -> SourceBroker:
        """Open another connection, without a fetch session. Raises BrokerUnreachable, ConnectionLost."""
        return await self.router.context.source.source_broker(self.node, lasting=False)

    def leave(self, driver: LaneDriver) -> None:
        """Remove a lane that uses another connection now, and what is on its way for it."""
        super().leave(driver)
        self.box.forget(driver)

    def wake(self) -> None:
        """A lane is to be fetched by the inbox again."""
        self.box.wake()

    def served(self) -> Collection[LaneDriver]:
        """Return the lanes to be fetched from this broker."""
        return self.lanes

    def may_fetch(self, driver: LaneDriver) -> bool:
        """Whether what is fetched could be sent."""
        return self.router.may_fetch(driver)

    def may_hold(self, driver: LaneDriver) -> bool:
        """Whether the lane may hold what was fetched for it."""
        return self.router.may_hold(driver)

    @property
    def turns(self) -> FetchTurns:
        """Which lanes may be fetched now, by bandwidth and priority."""
        return self.router.turns

    def lost(self) -> None:
        """Lanes that read from this broker as their nearest replica go back to their leader."""
        for driver in self.lanes:
            driver.leaders.read_from(None)
            driver.end.lose()
        self.router.leaders.look_up(self.lanes)


class TargetConnection(BrokerConnection[Outbox]):
    """A connection to a target broker."""

    _was_open = False

    @property
    def pace(self) -> ClusterPace:
        """How often the target is asked again."""
        return self.router.context.options.target_pace

    async def connect(self) -> TargetBroker:
        """Open the connection. Raises BrokerUnreachable, ConnectionLost."""
        return await self.router.context.target.target_broker(self.node)

    @property
    def most_in_flight_bytes(self) -> int:
        """The memory for this connection's requests in flight: half of the budget is shared by all connections."""
        return self.router.append_bytes

    def opened(self) -> None:
        """Wake the inboxes; lanes that had a connection before verify that the leader still has their records."""
        self._doubt()
        self._was_open = True
        self.router.leaders.look_up(driver for driver in self.lanes if driver.leaders.doubted)
        self.router.wake_inboxes()

    def lost(self) -> None:
        """Lanes of an unreachable broker give their receive buffers back; other lanes need them."""
        for driver in self._writers():
            driver.lane.rewind()
        self._doubt()
        self.router.leaders.look_up(self.lanes)

    def _doubt(self) -> None:
        """Let lanes with an owner verify the leader, and those that are acquired after a connection that was open."""
        for driver in self._writers():
            self.router.leader_ends.doubt(driver)
            if self._was_open:
                driver.leaders.lose()

    def _writers(self) -> list[LaneDriver]:
        """Return the lanes that write their records here."""
        return [driver for driver in self.lanes if self.router.routes_of(driver).outbox is self]


Connection = TypeVar("Connection", SourceConnection, TargetConnection)


class LaneRoutes(msgspec.Struct):
    """The connections that a lane uses now; it stays on one, so that the order of sends is the order of appends."""

    inbox: SourceConnection | None = None
    outbox: TargetConnection | None = None
    positions: TargetConnection | None = None
    blocks: TargetConnection | None = None

    @property
    def outboxes(self) -> tuple[TargetConnection | None, ...]:
        """The connections for the records, the positions and the map's blocks."""
        return self.outbox, self.positions, self.blocks


class BrokerRouter:
    """Connects the lanes of one copier to the brokers of both clusters."""

    def __init__(self, context: CopierContext, events: LaneEvents) -> None:
        options = context.options
        self.context = context
        self.pool = BufferPool(options.buffer_budget_bytes)
        self.turns = FetchTurns(self.pool, self._can_move, self.wake_inboxes)
        self.giving_back = GivingBack(self.pool, context.drivers, self)
        self.leader_ends = LeaderEndVerifier(context, self, events)
        self.expiry = ProducerExpiry(context.target, context.drivers)
        self.leaders = Leaders(context, self, events)
        self._options = options
        self._events = events
        self._lease_guard = context.lease_guard
        self._inboxes: dict[Address, SourceConnection] = {}
        self._outboxes: dict[Address, TargetConnection] = {}
        self._lane_routes: dict[LaneDriver, LaneRoutes] = {}
        self._tracker = InFlightTracker()
        share = self.pool.budget_bytes // _LEAST_SHARES
        self.lane_limits = msgspec.structs.replace(options.limits, queue_bytes=min(options.limits.queue_bytes, share))
        """The limits of each lane, by the memory that there is."""
        partition_bytes = min(options.partition_fetch_bytes, share)
        ranges = RangeLimits(
            options.range_connections, min(options.range_bytes, self.pool.budget_bytes // _LEAST_RANGES)
        )
        self._limits = InboxLimits(partition_bytes, IntakeRules(options.inflated_bytes, options.codec), ranges)

    def routes_of(self, driver: LaneDriver) -> LaneRoutes:
        """Return the connections that a lane uses."""
        return self._lane_routes.get(driver, LaneRoutes())

    def verify(self, drivers: Sequence[LaneDriver]) -> None:
        """Ask the target leaders of some lanes, just looked up, for the ends of their logs if they are new."""
        self.expiry.mark(drivers)
        self.leader_ends.verify(drivers)

    # --- places ----------------------------------------------------------------------------------------------

    def place(self, driver: LaneDriver) -> None:
        """Let a lane use the brokers of its present leaders, and schedule its sends and fetches."""
        if driver.leaders.target.node < 0:
            driver.lane.rewind()  # no broker to send to: the receive buffers are for lanes that have one
        lane_routes = self._lane_routes.setdefault(driver, LaneRoutes())
        self._place_source(driver, lane_routes)
        before = lane_routes.outboxes
        turn = self._turn(driver, self._options.target_connections)
        lane_routes.outbox = self._outbox((driver.leaders.target.node, turn))
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
        self._schedule(driver, lane_routes)

    def _turn(self, driver: LaneDriver, connections: int) -> int:
        """Return the number of the lane's connection to a broker. Each class of priority has connections of its own: a
        broker handles one request per connection at a time, so a batch would wait behind those of a colder class.
        """
        return _CLASSES.index(self.turns.priority_of(driver)) * connections + driver.turn % connections

    def limit(self, rules: TrafficRules) -> None:
        """Fetch by other limits and classes from now on; lanes of another class move to connections of that class."""
        if self.turns.limit(rules):
            for driver in list(self._lane_routes):
                self.place(driver)
        self.wake_inboxes()

    def _place_source(self, driver: LaneDriver, lane_routes: LaneRoutes) -> None:
        connection = self._inbox((driver.leaders.source_node, self._turn(driver, self._options.source_connections)))
        if lane_routes.inbox is not None and lane_routes.inbox is not connection:
            lane_routes.inbox.leave(driver)
        lane_routes.inbox = connection
        if connection is not None:
            connection.lanes[driver] = None
            connection.box.wake()

    def lose_source(self, driver: LaneDriver) -> None:
        """Fetch nothing for the lane until its leader was looked up again: the same fault would come at once."""
        driver.leaders.lose_source()
        self._place_source(driver, self._lane_routes.setdefault(driver, LaneRoutes()))
        self.leaders.look_up_later(driver)

    def read_from(self, driver: LaneDriver, replica: int) -> None:
        """Fetch from a replica that is nearer than the leader (KIP-392)."""
        driver.leaders.read_from(replica)
        self._place_source(driver, self._lane_routes.setdefault(driver, LaneRoutes()))

    def leave(self, driver: LaneDriver) -> None:
        """Forget a lane that has ended."""
        self.leaders.forget(driver)
        self.giving_back.forget(driver)
        self.turns.forget(driver)
        lane_routes = self._lane_routes.pop(driver, LaneRoutes())
        for connection in (lane_routes.inbox, *lane_routes.outboxes):
            if connection is not None:
                connection.leave(driver)
        for outbox in self._outboxes.values():
            for appender in driver.appenders:
                outbox.box.drop(appender)

    async def beyond_reach(self, drivers: Iterable[LaneDriver], *, hurry: bool = False) -> dict[LaneDriver, str]:
        """Try to connect to the leaders of lanes; return the lanes with an unreachable leader, which and why.

        `hurry`: a leader that answers much later than others counts as one.
        """
        needs = {
            driver: (
                [driver.leaders.source.node],
                [leader.node for leader in (driver.leaders.target, *(one.leader for one in driver.auxiliary))],
            )
            for driver in drivers
        }
        away: list[dict[int, str]] = [{}, {}]

        async def ask(side: int, cluster: Cluster) -> None:
            nodes = {node for need in needs.values() for node in need[side]} - {-1}
            away[side] = await cluster.unreachable(nodes, hurry=hurry)

        await run_all(ask(0, self.context.source), ask(1, self.context.target))
        if not any(away):
            return {}
        found: dict[LaneDriver, str] = {}
        for driver, need in needs.items():
            for name, there, nodes in zip(("source", "target"), away, need, strict=True):
                for node in nodes:
                    if node in there:
                        found[driver] = f"{name} broker {node} cannot be reached: {there[node]}"
        return found

    @property
    def append_bytes(self) -> int:
        """The share of one target connection in the memory budget, for requests in flight."""
        return self.pool.budget_bytes // _IN_FLIGHT // max(1, len(self._outboxes))

    # --- brokers ---------------------------------------------------------------------------------------------

    def _inbox(self, address: Address) -> SourceConnection | None:
        if address[0] < 0:
            return None
        connection = self._inboxes.get(address)
        if connection is None:
            connection = self._inboxes[address] = SourceConnection(self, address)
            fetch, meter = self._options.fetch, self.context.meter
            connection.box = Inbox(connection, self._events, self.pool, fetch, self._limits, meter)
            self.context.tasks.spawn(run_until(connection.closed, connection.box.run()))
        return connection

    def _outbox(self, address: Address) -> TargetConnection | None:
        if address[0] < 0:
            return None
        connection = self._outboxes.get(address)
        if connection is None:
            connection = self._outboxes[address] = TargetConnection(self, address)
            limits = OutboxLimits(self._options.request_timeout_s, self._options.request_bytes)
            connection.box = Outbox(connection, self._lease_guard, limits, self.context.meter, self._tracker)
            self.context.tasks.spawn(run_until(connection.closed, connection.box.run()))
        return connection

    def close_unused(self) -> None:
        """Close the connections to brokers that no lane has used for a while: they may have left the cluster."""
        _close_unused(self._inboxes)
        _close_unused(self._outboxes)

    # --- traffic ---------------------------------------------------------------------------------------------

    def may_fetch(self, driver: LaneDriver) -> bool:
        """Whether the lane may be fetched now: what is fetched could be sent on.

        Lanes of a broker whose quota is used up leave half of the memory to others: they send what they have first.
        """
        outbox = self._lane_routes[driver].outbox
        is_throttled = outbox is not None and outbox.box.throttled
        return self.may_hold(driver) and not (is_throttled and driver.lane.queued_bytes and self.pool.is_half_used)

    def may_hold(self, driver: LaneDriver) -> bool:
        """Whether the lane may hold what was fetched for it: nothing is known that keeps it from being sent."""
        outbox = self._lane_routes[driver].outbox
        is_open = outbox is not None and outbox.box.open and self._lease_guard.is_open
        return is_open and not self.giving_back.holds(driver)

    def _can_move(self, driver: LaneDriver) -> bool:
        return driver in self._lane_routes and self.may_fetch(driver)

    def is_answered(self, driver: LaneDriver) -> bool:
        """Whether the target brokers that the lane writes to answer, as far as the outboxes know."""
        connections = self.routes_of(driver).outboxes
        return all(connection is not None and connection.box.answers for connection in connections)

    def can_send(self, driver: LaneDriver) -> bool:
        """Whether no known obstacle stops the lane's batches, including batches that need a position first."""
        lane_routes, transaction = self.routes_of(driver), driver.transaction
        return (
            lane_routes.outbox is not None
            and lane_routes.outbox.box.moves
            and lane_routes.positions is not None
            and lane_routes.positions.box.moves
            and not driver.leaders.doubted
            and not driver.positions.writing
            and (transaction is None or transaction.between_steps)
            and not self._tracker.elsewhere(driver, lane_routes.outbox.box)
            and self._lease_guard.is_open
        )

    def copy_out(self, after_s: float) -> None:
        """Copy batches that target brokers have not answered for `after_s` seconds out of receive buffers."""
        for connection in self._outboxes.values():
            connection.box.copy_out(after_s)

    def obstacle(self, driver: LaneDriver) -> str:
        """Return why the lane cannot be fetched or sent now; empty if its path has no obstacle."""
        routes = self.routes_of(driver)
        is_owed = routes.outbox is not None and self._tracker.elsewhere(driver, routes.outbox.box)
        return obstacle(
            Way(
                lease_is_open=self._lease_guard.is_open,
                leaderless=_leaderless(driver),
                source_node=driver.leaders.source_node,
                target_node=driver.leaders.target.node,
                is_doubted=driver.leaders.doubted,
                has_outbox=routes.outbox is not None and routes.outbox.box.open,
                has_inbox=routes.inbox is not None and routes.inbox.box.connected,
                is_owed_elsewhere=is_owed,
                target_throttles=routes.outbox is not None and routes.outbox.box.throttled,
                source_throttles=routes.inbox is not None and routes.inbox.box.throttled,
            )
        )

    def bound(self, driver: LaneDriver) -> str:
        """Return what the path of a lane carries, if distance is what bounds the lane now; else empty."""
        routes, has_unsent = self.routes_of(driver), driver.lane.pieces.unsent_bytes > 0
        if routes.outbox is None or routes.inbox is None:
            return ""
        to_target = routes.outbox.box.bound(routes.outbox.node, driver, has_unsent=has_unsent)
        return to_target or routes.inbox.box.bound(driver)

    def schedule_send(self, drivers: Iterable[LaneDriver]) -> None:
        """These lanes may have something to send: records or positions."""
        for driver in drivers:
            lane_routes = self._lane_routes.get(driver)
            if lane_routes is not None:
                self._schedule(driver, lane_routes)

    def send(self, drivers: Iterable[LaneDriver]) -> None:
        """Send what these lanes have now, before the caller goes on: records that have just arrived.

        `schedule_send` would send in the next turn of the loop, behind the next fetch and all else that is ready.
        """
        drivers = list(drivers)
        self.schedule_send(drivers)
        for outbox in {self.routes_of(driver).outbox: None for driver in drivers}:
            if outbox is not None:
                outbox.box.pump()

    @staticmethod
    def _schedule(driver: LaneDriver, lane_routes: LaneRoutes) -> None:
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
        """The lease guard has opened: send and fetch what waited for it."""
        for connection in self._outboxes.values():
            connection.box.pump()
        self.wake_inboxes()


def _close_unused(connections: dict[Address, Connection]) -> None:
    before = now_s() - _CLOSE_S
    for address, connection in list(connections.items()):
        if not connection.lanes and connection.unused_at_s < before:
            connection.closed.set()
            del connections[address]


def _leaderless(driver: LaneDriver) -> str:
    """Name the first partition of a lane that has no leader; empty if all have one."""
    partitions = (
        ("source", driver.leaders.source, driver.name.source),
        ("target", driver.leaders.target, driver.name.target),
        ("positions", driver.position_appender.leader, driver.position_appender.partition),
        ("offset map", driver.block_appender.leader, driver.block_appender.partition),
    )
    return next((f"{side} partition {partition}" for side, leader, partition in partitions if leader.node < 0), "")
