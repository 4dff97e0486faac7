"""Which broker each lane talks to: one inbox and one outbox per broker and connection, lanes moved between them."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar

import msgspec

from engine.clock import backoff_s, now_s, pause
from engine.flow.buffers import BufferPool
from engine.flow.custody import Custody
from engine.flow.doubts import Doubts
from engine.flow.gate import Gate
from engine.flow.giving_back import GivingBack
from engine.flow.inbox import Inbox, InboxEvents
from engine.flow.lane_driver import NOBODY, LaneDriver
from engine.flow.leaders import Leaders
from engine.flow.meter import FlowMeter
from engine.flow.outbox import Outbox
from engine.flow.ports import Cluster
from engine.flow.producer_expiry import ProducerExpiry
from engine.flow.terms import FlowTerms
from engine.tasks import run_all, run_until
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


class Door(Generic[Box]):
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


class Way(msgspec.Struct):
    """The doors that a lane uses now; a lane keeps to one connection, so that order of sends is order of appends."""

    inbox: Door[Inbox] | None = None
    outbox: Door[Outbox] | None = None
    positions: Door[Outbox] | None = None
    blocks: Door[Outbox] | None = None

    @property
    def outboxes(self) -> tuple[Door[Outbox] | None, ...]:
        """Those of the records, the positions and the map's blocks."""
        return self.outbox, self.positions, self.blocks


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
        lost: Callable[[LaneDriver, int], None],
        gate: Gate,
        meter: FlowMeter,
    ) -> None:
        self.pool = BufferPool(terms.buffer_budget_bytes)
        self.giving_back = GivingBack(self.pool, drivers, self.can_send, self.wake, self._copy_out)
        self.doubts = Doubts(target, spawn, self.kick, lost)
        self.expiry = ProducerExpiry(target, drivers)
        self.leaders = Leaders(source, target, drivers, self.place, changed, self._settle)
        self._terms = terms
        self._source = source
        self._target = target
        self._drivers = drivers
        self._spawn = spawn
        self._events = events
        self._gate = gate
        self._meter = meter
        self._inboxes: dict[Address, Door[Inbox]] = {}
        self._outboxes: dict[Address, Door[Outbox]] = {}
        self._ways: dict[LaneDriver, Way] = {}
        self._custody = Custody()

    def _settle(self, drivers: list[LaneDriver]) -> None:
        self.expiry.mark(drivers)
        self.doubts.settle(drivers)

    # --- places ----------------------------------------------------------------------------------------------

    def place(self, driver: LaneDriver) -> None:
        """Let a lane use the brokers that its leaders name now, and say that it may have something for them."""
        if driver.target_leader.node < 0:
            driver.lane.rewind()  # nobody to send to: the receive buffers are for lanes that have somebody
        way = self._ways.setdefault(driver, Way())
        self._place_source(driver, way)
        before = way.outboxes
        connection = driver.turn % self._terms.target_connections
        way.outbox = self._outbox((driver.target_leader.node, connection))
        way.positions = self._outbox((driver.position_appender.leader.node, connection))
        way.blocks = self._outbox((driver.block_appender.leader.node, connection))
        for old, new, appender in zip(before, way.outboxes, driver.appenders, strict=True):
            if old is not None and old not in way.outboxes:
                old.leave(driver)
            if old is not None and old is not new:
                old.box.forget(appender)
        for door in way.outboxes:
            if door is not None:
                door.lanes[driver] = None
        self._kick(driver, way)

    def _place_source(self, driver: LaneDriver, way: Way) -> None:
        door = self._inbox((driver.source_node, driver.turn % self._terms.source_connections))
        if way.inbox is not None and way.inbox is not door:
            way.inbox.leave(driver)
        way.inbox = door
        if door is not None:
            door.lanes[driver] = None
            door.box.wake()

    def lose_source(self, driver: LaneDriver) -> None:
        """Fetch nothing for the lane until its leader was looked up again: the same fault would come at once."""
        driver.source_leader, driver.replica = NOBODY, -1
        self._place_source(driver, self._ways.setdefault(driver, Way()))
        self.leaders.look_up_later(driver)

    def read_from(self, driver: LaneDriver, replica: int) -> None:
        """Fetch from a replica that is nearer than the leader (KIP-392)."""
        driver.replica = replica
        self._place_source(driver, self._ways.setdefault(driver, Way()))

    def leave(self, driver: LaneDriver) -> None:
        """The lane has ended: keep nothing that names it."""
        self.leaders.forget(driver)
        self.giving_back.forget(driver)
        way = self._ways.pop(driver, Way())
        for door in (way.inbox, *way.outboxes):
            if door is not None:
                door.leave(driver)
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

    def _inbox(self, address: Address) -> Door[Inbox] | None:
        if address[0] < 0:
            return None
        door = self._inboxes.get(address)
        if door is None:
            lanes: dict[LaneDriver, None] = {}
            inbox = Inbox(
                connect=lambda: self._source.source_broker(address[0]),
                drivers=lambda: lanes,
                may_send=self.may_send,
                pool=self.pool,
                terms=self._terms.fetch,
                partition_bytes=min(self._terms.partition_fetch_bytes, self.pool.budget_bytes // _LEAST_SHARES),
                pause=_back_off,
                events=msgspec.structs.replace(
                    self._events,
                    lost=lambda: self._inbox_lost(address),
                    silent=lambda: self._silent(self._inboxes.get(address)),
                ),
                meter=self._meter,
                inflated_bytes=self._terms.inflated_bytes,
            )
            door = self._inboxes[address] = Door(address, inbox)
            door.lanes = lanes
            self._spawn(run_until(door.closed, inbox.run()))
        return door

    def _outbox(self, address: Address) -> Door[Outbox] | None:
        if address[0] < 0:
            return None
        door = self._outboxes.get(address)
        if door is None:
            outbox = Outbox(
                connect=lambda: self._target.target_broker(address[0]),
                pause=_back_off,
                on_lost=lambda: self._outbox_lost(address),
                on_open=lambda: self._outbox_open(address),
                request_timeout_s=self._terms.request_timeout_s,
                gate=self._gate,
                meter=self._meter,
                custody=self._custody,
                on_silent=lambda: self._silent(self._outboxes.get(address)),
            )
            door = self._outboxes[address] = Door(address, outbox)
            self._spawn(run_until(door.closed, outbox.run()))
        return door

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
            if self._ways[driver].outbox is self._outboxes[address]:
                self.doubts.doubt(driver)
        self.leaders.look_up(driver for driver in lanes if driver.doubted)
        self.wake_inboxes()

    def _outbox_lost(self, address: Address) -> None:
        """Lanes of a broker that is away give their receive buffers back; other lanes need them."""
        lanes = list(self._outboxes[address].lanes) if address in self._outboxes else []
        for driver in lanes:
            if self._ways[driver].outbox is self._outboxes[address]:
                driver.lane.rewind()
                self.doubts.doubt(driver)
        self.leaders.look_up(lanes)

    def _silent(self, door: Door[Any] | None) -> None:
        """A broker takes requests and answers none: perhaps others lead by now."""
        self.leaders.look_up(door.lanes if door is not None else ())

    # --- traffic ---------------------------------------------------------------------------------------------

    def may_send(self, driver: LaneDriver) -> bool:
        """Whether the lane may be fetched now: what is fetched could be sent on.

        Lanes of a broker whose quota is used up leave half of the memory to others: they send what they have first.
        """
        outbox = self._ways[driver].outbox
        if outbox is None or not outbox.box.open or not self._gate.is_open or self.giving_back.holds(driver):
            return False
        return not (outbox.box.throttled and driver.lane.queued_bytes and self.pool.is_half_used)

    def is_answered(self, driver: LaneDriver) -> bool:
        """Whether the target brokers that the lane writes to answer, as far as one can see."""
        doors = self._ways.get(driver, Way()).outboxes
        return all(door is not None and door.box.answers for door in doors)

    def can_send(self, driver: LaneDriver) -> bool:
        """Whether nothing known keeps batches of the lane from going out, those too that a position goes before."""
        way, transaction = self._ways.get(driver, Way()), driver.transaction
        return (
            way.outbox is not None
            and way.outbox.box.moves
            and way.positions is not None
            and way.positions.box.moves
            and not driver.doubted
            and not driver.positions.writing
            and (transaction is None or transaction.between_steps)
            and not self._custody.elsewhere(driver, way.outbox.box)
            and self._gate.is_open
        )

    def _copy_out(self, after_s: float) -> None:
        for door in self._outboxes.values():
            door.box.copy_out(after_s)

    def obstacle(self, driver: LaneDriver) -> str:
        """Say what keeps the lane from being fetched or sent just now; empty where nothing of the way does."""
        if not self._gate.is_open:
            return "waits for its lease: the supervisor cannot see that the flow is still its own, or does not answer"
        for side, leader, partition in (
            ("source", driver.source_leader, driver.name.source),
            ("target", driver.target_leader, driver.name.target),
            ("positions", driver.position_appender.leader, driver.position_appender.partition),
            ("offset map", driver.block_appender.leader, driver.block_appender.partition),
        ):
            if leader.node < 0:
                return f"no leader for {side} partition {partition}"
        way = self._ways.get(driver, Way())
        if driver.doubted:
            return f"waits to hear from target broker {driver.target_leader.node} where its log ends"
        if way.outbox is None or not way.outbox.box.open:
            return f"no connection to target broker {driver.target_leader.node}"
        if self._custody.elsewhere(driver, way.outbox.box):
            return "waits for the last answers of the target broker that led before"
        if way.inbox is None or not way.inbox.box.connected:
            return f"no connection to source broker {driver.source_node}"
        if way.outbox.box.throttled:
            return f"throttled by the quota of target broker {driver.target_leader.node}"
        return f"throttled by the quota of source broker {driver.source_node}" if way.inbox.box.throttled else ""

    def kick(self, drivers: Iterable[LaneDriver]) -> None:
        """These lanes may have something to send: records or positions."""
        for driver in drivers:
            way = self._ways.get(driver)
            if way is not None:
                self._kick(driver, way)

    @staticmethod
    def _kick(driver: LaneDriver, way: Way) -> None:
        if way.outbox is not None:
            way.outbox.box.kick(driver)
        if way.positions is not None:
            way.positions.box.kick(driver.position_appender)
        if way.blocks is not None and (driver.blocks.due or driver.blocks.writing):
            way.blocks.box.kick(driver.block_appender)

    def wake(self, driver: LaneDriver) -> None:
        """The lane may have room for more."""
        way = self._ways.get(driver)
        if way is not None and way.inbox is not None:
            way.inbox.box.wake()

    def wake_inboxes(self) -> None:
        """Any lane may have room for more."""
        for door in self._inboxes.values():
            door.box.wake()

    def go_on(self) -> None:
        """The gate has opened: whatever waited for it may be sent and fetched."""
        for door in self._outboxes.values():
            door.box.pump()
        self.wake_inboxes()


def _close_unused(doors: dict[Address, Door[Box]]) -> None:
    before = now_s() - _CLOSE_S
    for address, door in list(doors.items()):
        if not door.lanes and door.unused_at_s < before:
            door.closed.set()
            del doors[address]


async def _back_off(attempt: int) -> None:
    await pause(backoff_s(attempt))
