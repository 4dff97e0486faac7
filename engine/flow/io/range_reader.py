"""Reads lanes with a backlog at a distant broker: many ranges of offsets at once, each over a connection of its own.

One connection brings at most one answer per round trip, and no more than the broker's socket buffer holds: 100 KiB by
default (`socket.send.buffer.bytes`), which Linux doubles. At 100 ms that is about 1.5 MB/s, whatever a client asks for.
So only more connections help one hot partition.

A lane is read so if three things hold: its answers come full, they take long, and it has room for more. The inbox does
not fetch it meanwhile. Whatever is not as expected (a fault, another leader, a rewound lane) ends the plan: the lane
goes back to the inbox, which fetches from the lane's own offset, and handles what is wrong. A near broker that is busy
takes long too, but not always: for some seconds after an answer that began at once, no new ranges are asked for.
"""

import asyncio
from typing import Protocol

import msgspec

from engine.base.clock import now_s, pause
from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.flow.io.buffers import BufferLease, BufferPool
from engine.flow.io.far_paths import RangePath, ShortestTrip
from engine.flow.io.hot_lane import LEAST_REQUESTS, HotLane
from engine.flow.io.path_window import SentMark
from engine.flow.io.silence import SILENT_S, watched
from engine.flow.io.slice_intake import SliceIntake
from engine.flow.lane.copier_metrics import CopierMetrics
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.lane.lane_events import FetchEvents
from engine.flow.ports.ports import FetchAnswer, FetchOptions, PartitionFetch, Slice, SourceBroker
from engine.flow.ranges.batch_sizes import FEW_BATCHES, NARROW_BATCHES, WHOLE, Aim, BatchSizes
from engine.flow.ranges.range_plan import Range, RangePlan
from engine.flow.ranges.range_room import RangeRoom
from engine.flow.turns.fetch_turns import FetchTurns
from engine.wire.extent import extent

FULL = 0.75
"""An answer with this part of the bytes that were asked for is full."""
_MOST_FAILURES = 3
"""Connections that one range may lose before its plan ends."""
_LEAST_RANGES = 4
"""A backlog of fewer ranges is not worth more connections."""
_MOST_HELD = 3
"""A lane holds at most three times what its path holds: on the way, and arrived before an earlier range."""
_LINGER_S = 30.0
"""Seconds that connections without ranges stay open."""


class RangeSide(Protocol):
    """The broker that ranges are read from, as the router sees it."""

    async def connect_beside(self) -> SourceBroker:
        """Open another connection, without a fetch session. Raises BrokerUnreachable, ConnectionLost."""

    def may_fetch(self, driver: LaneDriver) -> bool:
        """Whether what is fetched could be sent."""

    def may_hold(self, driver: LaneDriver) -> bool:
        """Whether the lane may hold what was fetched for it."""

    @property
    def turns(self) -> FetchTurns:
        """Which lanes may be fetched now, by bandwidth and priority."""

    def silent(self) -> None:
        """The broker takes requests and answers none."""

    def wake(self) -> None:
        """A lane is to be fetched by the inbox again."""


class RangeLimits(msgspec.Struct, frozen=True):
    """Most connections to one broker for ranges, and most bytes of one range."""

    connections: int
    range_bytes: int


class RangeReader:
    """The ranges of one broker's lanes; `begin` before anything else."""

    def __init__(
        self,
        side: RangeSide,
        events: FetchEvents,
        pool: BufferPool,
        options: FetchOptions,
        limits: RangeLimits,
        meter: CopierMetrics,
    ) -> None:
        self._side = side
        self._events = events
        self._pool = pool
        self._options = options
        self._limits = limits
        self._meter = meter
        self.trip = ShortestTrip()
        """Of the full answers that came over any connection to this broker."""
        self._hot: dict[LaneDriver, HotLane] = {}
        self._idle: list[SourceBroker] = []
        self._in_use = self._asked = 0
        self._open = 0
        """Connections that are open, in use or not."""
        self._most = limits.connections
        self._most_until_s = 0.0
        """The connections that the broker accepts, as far as known, and until when that counts."""
        self._heard_s = 0.0
        self._tasks: asyncio.TaskGroup | None = None
        self._intake: SliceIntake | None = None
        self._throttled = 0
        """How many connections wait because the broker's quota is used up."""
        self._is_soon = False
        self._linger: asyncio.TimerHandle | None = None

    def begin(self, tasks: asyncio.TaskGroup, intake: SliceIntake) -> None:
        """Read in `tasks` from now on, and hand what arrives to `intake`."""
        self._tasks, self._intake = tasks, intake

    def holds(self, driver: LaneDriver) -> bool:
        """Whether the lane is read in ranges now."""
        return driver in self._hot

    def path_of(self, driver: LaneDriver) -> RangePath | None:
        """Return the path of a lane that is read in ranges; None for other lanes."""
        return self._hot.get(driver)

    def consider(
        self, driver: LaneDriver, want: PartitionFetch, found: Slice, buffer: memoryview, took_s: float
    ) -> None:
        """Read the lane in ranges from now on, if its last answer, which came from far, shows that this pays.

        `want`: what was asked; `found`: its answer after `took_s` seconds, taken in already.
        """
        lane, leader = driver.lane, driver.leaders.source
        if (
            self._limits.connections < 2
            or self.trip.is_near
            or found.end - found.start < FULL * want.max_bytes
            or leader.epoch < 0
            or leader.epoch != want.leader_epoch
            or driver.leaders.replica is not None
            or not lane.listens
            or lane.pieces.unsent_bytes >= lane.limits.queue_bytes + found.end - found.start
        ):
            return  # a lane with room before this answer has room, even if one batch fills its queue
        part = extent(buffer, found.start, found.end, max(found.high_watermark, 0))
        if part is None or not part.batches or part.next_offset != lane.fetch_offset:
            return
        sizes = BatchSizes.of(part, found.start)
        end, size = self._options.end_in(found), sizes.range_bytes(self._limits.range_bytes)
        if not size or (end - lane.fetch_offset) * sizes.bytes_per_offset < _LEAST_RANGES * size:
            return
        hot = HotLane(driver, RangePlan(leader, lane.fetch_offset, end, sizes, self._limits.range_bytes))
        fetched = found.end - found.start
        hot.window.seed(fetched, took_s, took_s * max(1.0, size / fetched), now_s())
        self._hot[driver] = hot
        self._ask()

    def forget(self, driver: LaneDriver) -> None:
        """Drop the lane's ranges: it is fetched elsewhere, or not at all."""
        hot = self._hot.pop(driver, None)
        if hot is not None:
            hot.is_over = True
            hot.plan.drop()
            self._meter.in_vain(hot.plan.take_vain())
            self._side.wake()
        if not self._hot and self._linger is None:
            self._linger = asyncio.get_running_loop().call_later(_LINGER_S, self._close_idle)

    def _close_idle(self) -> None:
        self._linger = None
        if not self._hot and self._tasks is not None:
            idle, self._idle = self._idle, []
            self._open -= len(idle)
            for broker in idle:
                self._tasks.create_task(broker.close())

    async def close(self) -> None:
        """Close the idle connections; those in use end with their tasks."""
        for driver in list(self._hot):
            self.forget(driver)
        if self._linger is not None:  # after the last `forget`, which starts it
            self._linger.cancel()
            self._linger = None
        idle, self._idle = self._idle, []
        for broker in idle:
            await broker.close()

    def wake(self) -> None:
        """A lane may have room, or may have changed: soon deliver what has arrived, and ask for more."""
        if self._hot and not self._is_soon:
            self._is_soon = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_soon = False
        for hot in list(self._hot.values()):
            self._deliver(hot)
        self._ask()

    # --- asking ----------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Ask for ranges in turn, one of each lane, until connections, windows or memory are used up."""
        turn = sorted(self._hot.values(), key=lambda hot: hot.asked)
        if self._most < self._limits.connections and now_s() >= self._most_until_s:
            self._most = self._limits.connections
        while turn and self._in_use < self._most and not self._throttled:
            turn = [hot for hot in turn if self._ask_one(hot)]

    def _ask_one(self, hot: HotLane) -> bool:
        """Ask for one range of a lane; return whether it may ask for another one."""
        if self._in_use >= self._most or hot.is_over:
            return False
        plan = hot.plan
        if not hot.is_as_planned or not self._side.may_hold(hot.driver):
            if not self._is_busy(hot):
                self.forget(hot.driver)
            return False
        if not self._side.may_fetch(hot.driver) or self._side.turns.holds_back(hot.driver):
            return False  # what is under way stays: it was counted when it was asked for
        one = plan.rest or self._extend(hot)
        if one is None:
            return False
        lease = self._pool.try_lease(one.max_bytes, whole=one is plan.head)
        if lease is None:
            if one is plan.head and not hot.window.requests:
                self.forget(hot.driver)  # nothing of it would wake this reader: the inbox waits for memory in turn
            return False
        plan.asked(one)
        self._asked = hot.asked = self._asked + 1
        self._side.turns.reserve(hot.driver, one.max_bytes)
        assert self._tasks is not None, "nothing is asked before `begin`"
        self._in_use += 1
        self._tasks.create_task(self._read(hot, one, lease, hot.window.sent(one.max_bytes, now_s())))
        return True

    def _extend(self, hot: HotLane) -> Range | None:
        """Return another range of a lane, unless enough is on its way, or has arrived and waits for its turn."""
        if self.trip.is_near:
            return None
        held, window = hot.plan.held_bytes, hot.window
        memory = self._pool.budget_bytes // 4 * 3
        share = memory // len(self._hot)
        if held >= share or not window.has_room(share):
            return None
        if hot.answers and window.requests >= LEAST_REQUESTS and held >= _MOST_HELD * window.holds:
            return None
        return hot.plan.extend(self._aim(hot, memory, share))

    def _aim(self, hot: HotLane, memory: int, share: int) -> Aim:
        """Return how large a range should be.

        Where the memory is the limit, ranges are so small that all connections have one. The first ones are as small as
        they may be, because their answers show what the path carries.
        """
        if not hot.is_new and 2 * hot.window.goal_bytes <= share:
            return WHOLE
        few = NARROW_BATCHES if hot.is_new or hot.is_narrow else FEW_BATCHES
        return Aim(0 if hot.is_new else memory // self._most, few)

    async def _read(self, hot: HotLane, one: Range, lease: BufferLease, mark: SentMark) -> None:
        room = RangeRoom(lease, self._pool, hot.plan, one)
        broker: SourceBroker | None = None
        is_answered, size, end, reserved = False, 0, -1, one.max_bytes
        try:
            if self._idle:
                broker = self._idle.pop()
            else:
                broker = await self._side.connect_beside()
                self._open += 1
                mark = hot.window.delayed(mark, now_s())
            with watched(self, self._options.max_wait_s + SILENT_S):
                answer = await broker.fetch([self._want(hot, one)], self._options_for(one), room)
            self._heard_s = now_s()
            is_answered, size = True, sum(found.end - found.start for found in answer.slices)
            began_s = self._heard_s if lease.began_s is None else lease.began_s
            hot.came(one, mark, self._heard_s, size, began_s)
            if size >= FULL * one.max_bytes:
                self.trip.began_after(began_s - mark.sent_s, began_s)
            if answer.slices and not hot.is_over:
                end = self._options.end_in(answer.slices[0])
            self._arrived(hot, one, answer, lease)
            if answer.throttle_s:
                await self._wait_for_quota(answer.throttle_s)
            self._idle.append(broker)
            broker = None
        except (BrokerUnreachable, ConnectionLost):
            if broker is None:
                self._refused(hot, one)
            elif room.refused_bytes and not hot.is_over:
                hot.plan.too_large(one, room.refused_bytes)
            else:
                self._lost(hot, one)
        finally:
            lease.release()
            self._side.turns.received(hot.driver, size, end, reserved=reserved)
            self._in_use -= 1
            if not is_answered:
                hot.window.lost(mark)
            if broker is not None:
                self._open -= 1
                await broker.close()
        self.wake()

    def silent(self) -> None:
        """Report a broker that has answered no range for a while; a large answer over a slow path takes long."""
        if now_s() - self._heard_s >= SILENT_S:
            self._side.silent()

    def _refused(self, hot: HotLane, one: Range) -> None:
        """Go on with the connections that the broker accepts, for a while; without any the inbox goes on alone."""
        self._most, self._most_until_s = max(1, self._open), now_s() + _LINGER_S
        if hot.is_over:
            return
        if self._open:
            hot.plan.put_back(one)
        else:
            self.forget(hot.driver)

    def _lost(self, hot: HotLane, one: Range) -> None:
        """Ask again for a range whose connection was lost; if that happens again and again, the inbox finds out why."""
        if hot.is_over:
            return
        one.failures += 1
        if one.failures > _MOST_FAILURES:
            self.forget(hot.driver)
        else:
            hot.plan.put_back(one)

    async def _wait_for_quota(self, throttle_s: float) -> None:
        self._throttled += 1
        try:
            await pause(throttle_s)
        finally:
            self._throttled -= 1

    def _want(self, hot: HotLane, one: Range) -> PartitionFetch:
        lane, leader = hot.driver.lane, hot.plan.leader
        last_epoch = lane.source_leader_epoch if one.start == lane.fetch_offset else -1
        return PartitionFetch(lane.name.source, one.start, leader.epoch, last_epoch, one.max_bytes)

    def _options_for(self, one: Range) -> FetchOptions:
        return msgspec.structs.replace(self._options, max_bytes=one.max_bytes, rack="")

    # --- delivering ------------------------------------------------------------------------------------------

    def _arrived(self, hot: HotLane, one: Range, answer: FetchAnswer, lease: BufferLease) -> None:
        found = answer.slices[0] if answer.slices else None
        if hot.is_over:
            return self._meter.in_vain(found.end - found.start if found is not None else 0)
        if found is None and answer.throttle_s:
            return hot.plan.put_back(one)  # a used up quota empties the answer (FetchContext.getThrottledResponse)
        is_usable = (
            found is not None
            and found.fault is None
            and found.diverging is None
            and found.preferred_replica < 0
            and hot.plan.arrive(one, found, answer.buffer, lease)
        )
        if not is_usable or found is None:
            return self.forget(hot.driver)
        hot.plan.told(self._options.end_in(found))
        self._intake_of().answered(hot.driver, found)
        return self._deliver(hot)

    def _deliver(self, hot: HotLane) -> None:
        """Hand the ranges that have arrived in order to the lane, as far as it has room."""
        driver, plan, intake = hot.driver, hot.plan, self._intake_of()
        while not hot.is_over and not intake.is_busy(driver):
            is_over = plan.is_done or (self.trip.is_near and plan.head is None)
            if not hot.is_as_planned or is_over or not self._side.may_hold(driver):
                return self.forget(driver)
            ready = plan.ready
            if ready is None or not driver.lane.wants_fetch:
                return None
            found = plan.trim(ready)
            if found is not None and isinstance(ready.lease, BufferLease):
                intake.take(driver, ready.buffer, found, ready.lease)
            plan.deliver()
            self._meter.in_vain(plan.take_vain())
            self._events.taken([driver])
        return None

    def _is_busy(self, hot: HotLane) -> bool:
        return self._intake_of().is_busy(hot.driver)

    def _intake_of(self) -> SliceIntake:
        assert self._intake is not None, "nothing is read before `begin`"
        return self._intake
