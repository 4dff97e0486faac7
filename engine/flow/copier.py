"""The copier of one flow in one process: owns its lanes, and every task that serves them.

    Inbox (one per source broker) -> Lane (core) -> Outbox (one per target broker)
                                       |  actions
                                       v
                                    Remedies, Acquisition

Nothing here decides about records: that is the lane's.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from itertools import count
from typing import Any

from engine.clock import backoff_s, now_s, pause, wall_ms
from engine.core.events import AnyEvent, LaneRefused
from engine.core.lane import Lane
from engine.core.position import encode_key
from engine.core.position_stream import PositionStream
from engine.core.progress import FlowProgress
from engine.core.states import State
from engine.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.flow.acquisition import Acquisition
from engine.flow.inbox import InboxEvents
from engine.flow.lane_driver import LaneDriver
from engine.flow.ports import EARLIEST, Cluster
from engine.flow.remedies import Remedies
from engine.flow.routes import Routes
from engine.flow.starts import StartResolver
from engine.flow.terms import FlowTerms
from engine.wire.murmur2 import partition_for_key
from policies.model import LaneName, PartitionSet, TopicPartition
from policies.start import Start

_TICK_S = 0.2
_EVENTS_KEPT = 10_000
_DEFAULT_BATCH_BYTES = 1_048_588
"""Kafka's default of max.message.bytes, where the target does not let us ask."""
_AT_REST = (State.STOPPED, State.FAILED, State.ACQUIRING)


class _Done(Exception):
    """Ends the task group of a drained copier."""


class FlowCopier:
    """Copies the lanes of the partition sets it was assigned, until it is drained."""

    def __init__(self, terms: FlowTerms, source: Cluster, target: Cluster, start_for: Callable[[str], Start]) -> None:
        self.terms = terms
        self.keep_alive_s = terms.keep_alive_s
        self.producer_expiry_s: float | None = None
        self.drivers: dict[TopicPartition, LaneDriver] = {}
        self._target = target
        self._acquisition = Acquisition(terms, source, target, StartResolver(source, start_for))
        self._remedies = Remedies(
            terms, source, target, lambda: self.routes, self._spawn, self._tell, lambda _: self._joined.set()
        )
        events = InboxEvents(
            self._taken, self._remedies.source_fault, self._remedies.corrupt, self._remedies.idle, self._source_lost
        )
        self.routes = Routes(terms, source, target, self.drivers, self._spawn, events, self._remedies.changed_topic)
        self._events: deque[AnyEvent] = deque(maxlen=_EVENTS_KEPT)
        self._group: asyncio.TaskGroup | None = None
        self._joined = asyncio.Event()
        self._drained = asyncio.Event()
        self._paused: set[str] = set()
        self._flow_paused = False
        self._turns = count()
        self._beat = 0

    # --- life ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Copy until `drain` has finished. What it raises is a bug: brokers and lanes may fail, this goes on."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self.routes.keep())
                group.create_task(self._acquire_joined())
                group.create_task(self._tick())
                await self._drained.wait()
                raise _Done
        except* _Done:
            pass
        finally:
            self._group = None

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        if self._group is None:
            coroutine.close()  # the copier has ended: nothing may outlive it
        else:
            self._group.create_task(coroutine)

    def _tell(self, event: AnyEvent) -> None:
        self._events.append(event)

    # --- sets ------------------------------------------------------------------------------------------------

    def assign(self, partition_set: PartitionSet) -> None:
        """Take a partition set, or what changed in one of ours: new lanes join, lanes that left it are drained."""
        present = {name.source for name in partition_set.lanes}
        left = [d for d in self.drivers.values() if d.set_id == partition_set.set_id and d.name.source not in present]
        if left:
            self._spawn(self._leave(left))
        for name in partition_set.lanes:
            if name.source not in self.drivers:
                self.drivers[name.source] = self._driver(name, partition_set)
        self._joined.set()

    def _driver(self, name: LaneName, partition_set: PartitionSet) -> LaneDriver:
        lane = Lane(self.terms.flow, name, self.terms.limits)
        lane.paused = self._flow_paused or name.source.topic in self._paused
        key = encode_key(self.terms.flow.source, name.source)
        partition = TopicPartition(self.terms.positions_topic, partition_for_key(key, self.terms.positions_partitions))
        return LaneDriver(
            lane,
            partition_set.set_id,
            partition_set.epoch,
            PositionStream(lane, key, wall_ms),
            partition,
            next(self._turns),
            self._remedies.perform,
            self._appended,
            self._planned,
        )

    async def release(self, set_id: str) -> None:
        """Drain the lanes of a set, make their positions durable, forget them."""
        await self._leave([driver for driver in self.drivers.values() if driver.set_id == set_id])

    async def _leave(self, drivers: Sequence[LaneDriver]) -> None:
        await self._settle_down(drivers)
        for driver in drivers:
            self.drivers.pop(driver.name.source, None)

    def pause(self, topics: frozenset[str] | None) -> None:
        """Stop fetching the whole flow (None) or some topics; what is in flight finishes."""
        self._set_paused(topics, paused=True)

    def resume(self, topics: frozenset[str] | None) -> None:
        """Fetch again; a lane that had failed is acquired anew, a refused record is tried at once."""
        self._set_paused(topics, paused=False)
        for driver in self.drivers.values():
            if topics is not None and driver.name.source.topic not in topics:
                continue
            if driver.lane.state is State.FAILED:
                driver.lane.disown()
                driver.reacquired = 0
            elif driver.lane.state is State.REFUSED:
                self._remedies.retry_now(driver)
        self._joined.set()
        self.routes.wake_inboxes()

    def _set_paused(self, topics: frozenset[str] | None, *, paused: bool) -> None:
        if topics is None:
            self._flow_paused = paused
            self._paused.clear()
        elif paused:
            self._paused |= topics
        else:
            self._paused -= topics
        for driver in self.drivers.values():
            driver.lane.paused = self._flow_paused or driver.name.source.topic in self._paused

    async def drain(self) -> None:
        """Finish what is in flight, make every position durable, end `run`."""
        await self._settle_down(list(self.drivers.values()))
        self._drained.set()

    async def _settle_down(self, drivers: Sequence[LaneDriver]) -> None:
        """Wait, for a bounded time, until lanes are idle with durable positions; resume settles whatever is left."""
        for driver in drivers:
            driver.lane.drain()
        try:
            async with asyncio.timeout(self.terms.drain_s):
                while not all(_at_rest(driver) for driver in drivers):
                    for driver in drivers:
                        driver.positions.flush_asked = _has_finished(driver)
                    self.routes.kick(drivers)
                    await pause(0.01)
        except TimeoutError:
            pass
        for driver in drivers:
            if driver.lane.state is not State.STOPPED:
                driver.lane.stop()

    def progress(self) -> FlowProgress:
        """Take a snapshot; events since the last one are handed over once."""
        events = tuple(self._events)
        self._events.clear()
        return FlowProgress(
            flow=self.terms.flow,
            at_ms=wall_ms(),
            lanes=tuple(driver.progress() for driver in self.drivers.values()),
            events=events,
            buffer_bytes=self.routes.pool.used_bytes,
            set_ids=tuple(sorted({driver.set_id for driver in self.drivers.values()})),
            beat=self._beat,
        )

    # --- traffic ---------------------------------------------------------------------------------------------

    def _taken(self, drivers: list[LaneDriver]) -> None:
        """Lanes have new batches: send them on."""
        self.routes.kick(drivers)

    def _appended(self, driver: LaneDriver) -> None:
        """A lane's append was acknowledged: it has room for more."""
        self.routes.wake(driver)
        if driver.refused_told:
            self._remedies.released(driver)

    def _planned(self, driver: LaneDriver) -> None:
        """A lane's position is durable: what waited for it may be sent, or fetched."""
        self.routes.wake(driver)
        self.routes.kick([driver])

    def _source_lost(self) -> None:
        self.routes.look_up()

    # --- ownership -------------------------------------------------------------------------------------------

    async def _acquire_joined(self) -> None:
        while True:
            await self._joined.wait()
            self._joined.clear()
            joined = [d for d in self.drivers.values() if d.lane.state is State.ACQUIRING and not d.acquiring]
            for driver in joined:
                driver.acquiring = True
            if joined:
                self._spawn(self._acquire(joined, 1))

    async def _acquire(self, drivers: list[LaneDriver], attempt: int) -> None:
        """Acquire lanes together; when that fails, in two halves, so that one bad lane never holds the others."""
        left = self._still_to_acquire(drivers)
        if not left:
            return
        try:
            await self.routes.refresh(left)
            await self._learn_limits(left)
            await self._acquisition.acquire(left, self._tell)
        except (ConnectionLost, BrokerUnreachable) as error:
            await self._try_again(left, attempt, str(error))
        except KafkaRefusal as refusal:
            if len(left) > 1:
                await self._try_again(left, attempt, str(refusal))
            else:
                event = LaneRefused(flow=self.terms.flow, lane=left[0].name.source, what=str(refusal))
                self._remedies.fail(left[0], event)
                left[0].acquiring = False
        else:
            for driver in self._still_to_acquire(left):
                driver.acquiring = False  # owned, and lost again meanwhile
                self._joined.set()

    def _still_to_acquire(self, drivers: Sequence[LaneDriver]) -> list[LaneDriver]:
        """Return the lanes that have no owner yet; the others, whatever became of them, are out of the acquisition."""
        done = [d for d in drivers if d.lane.state is not State.ACQUIRING or self.drivers.get(d.name.source) is not d]
        self._owned(done)
        return [d for d in drivers if d.acquiring]

    async def _try_again(self, drivers: list[LaneDriver], attempt: int, reason: str) -> None:
        drivers = self._still_to_acquire(drivers)
        for driver in drivers:
            driver.reason = reason
        await pause(backoff_s(attempt))
        middle = (len(drivers) + 1) // 2
        for half in (drivers[:middle], drivers[middle:]):
            if half:
                self._spawn(self._acquire(half, attempt + 1))

    async def _learn_limits(self, drivers: Sequence[LaneDriver]) -> None:
        topics = sorted({driver.name.target.topic for driver in drivers})
        try:
            configs = await self._target.topic_configs(topics, ["max.message.bytes"])
        except KafkaRefusal:
            configs = {}
        for driver in drivers:
            value = configs.get(driver.name.target.topic, {}).get("max.message.bytes")
            driver.max_batch_bytes = int(value) if value else _DEFAULT_BATCH_BYTES

    def _owned(self, drivers: Sequence[LaneDriver]) -> None:
        self._mark_old()
        for driver in drivers:
            driver.acquiring = False
            driver.kept_alive_at = now_s()
            driver.flushed_bytes = driver.lane.wire_bytes
        self.routes.kick(drivers)
        self.routes.wake_inboxes()

    # --- cadence ---------------------------------------------------------------------------------------------

    async def _tick(self) -> None:
        flushed_at = now_s()
        while True:
            await pause(_TICK_S)
            self._beat += 1
            now = now_s()
            self._mark_old()
            due = now - flushed_at >= self.terms.flush_s
            flushed_at = now if due else flushed_at
            dirty = [driver for driver in self.drivers.values() if due or self._much_copied(driver)]
            for driver in dirty:
                driver.positions.flush_asked = True
                driver.flushed_bytes = driver.lane.wire_bytes
            self.routes.kick(dirty)
            if due:
                self._spawn(self._look_for_eaten())
            for driver in self.drivers.values():
                if driver.producer is not None and now - driver.kept_alive_at >= self.keep_alive_s:
                    driver.kept_alive_at = now
                    self._spawn(self._keep_alive(driver))

    def _mark_old(self) -> None:
        """Tell the lanes which records are so old that the target forgets their producer with them."""
        if self.producer_expiry_s is not None:
            before_ms = wall_ms() - int(self.producer_expiry_s * 500)  # half of it: brokers' clocks differ
            for driver in self.drivers.values():
                driver.lane.forgets_before_ms = before_ms

    async def _look_for_eaten(self) -> None:
        """Compare the target's log starts with the positions, once per lane until it recovers."""
        drivers = [d for d in self.drivers.values() if d.lane.state is State.COPYING and d.lane.records]
        try:
            starts = await self._target.offsets([d.name.target for d in drivers], EARLIEST) if drivers else {}
        except (ConnectionLost, BrokerUnreachable, KafkaRefusal):
            return  # asked again at the next flush
        for driver in drivers:
            eaten = starts[driver.name.target] >= driver.lane.target_next
            if eaten and not driver.eaten_told:
                self._remedies.eaten(driver, starts[driver.name.target])
            driver.eaten_told = eaten

    def _much_copied(self, driver: LaneDriver) -> bool:
        return driver.lane.wire_bytes - driver.flushed_bytes >= self.terms.flush_bytes

    async def _keep_alive(self, driver: LaneDriver) -> None:
        """Repeat the empty transaction, so that the transactional id, and with it the fence, does not expire."""
        producer = driver.producer
        if producer is None or not producer.fenced or driver.lane.state is not State.COPYING:
            return
        partitions = [driver.name.target, driver.position_appender.partition]
        transactional_id = self.terms.transactional_id(*driver.name.source)
        try:
            await self._target.keep_alive(transactional_id, producer, partitions)
        except (ConnectionLost, BrokerUnreachable):
            driver.kept_alive_at = 0.0  # again at the next tick
        except KafkaRefusal as refusal:
            if driver.producer is producer:
                self._remedies.reacquire(driver, str(refusal))


def _at_rest(driver: LaneDriver) -> bool:
    return driver.lane.state in _AT_REST or (_has_finished(driver) and driver.positions.settled)


def _has_finished(driver: LaneDriver) -> bool:
    """Whether nothing more will be acknowledged: what a target refuses is not worth waiting for."""
    return driver.lane.idle or driver.lane.state is State.REFUSED
