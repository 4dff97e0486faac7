"""The copier of one flow in one process: owns its lanes, and every task that serves them.

    Inbox (one per source broker) -> Lane (core) -> Outbox (one per target broker)
                                       |  actions
                                       v
                                    Remedies, Joining -> Acquisition

Nothing here decides about records: that is the lane's.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from itertools import count
from typing import Any

from engine.base.clock import now_s, wall_ms
from engine.core.events.events import AnyEvent
from engine.core.lane.lane import Lane
from engine.core.lane.states import State
from engine.core.mm2.sync_emitter import SyncEmitter
from engine.core.reports.progress import FlowProgress
from engine.core.streams.position_stream import PositionStream
from engine.core.streams.transaction import CommittedPositions
from engine.flow.io.ends import SourceEnds
from engine.flow.io.inbox import InboxEvents
from engine.flow.io.lease_guard import LeaseGuard
from engine.flow.io.router import BrokerRouter
from engine.flow.io.spare_memory import return_spare_memory
from engine.flow.lane.copier_metrics import CopierMetrics
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ownership.acquisition import Acquisition
from engine.flow.ownership.failure_handler import FailureHandler
from engine.flow.ownership.position_recovery import PositionRecovery
from engine.flow.ownership.recovery_rules import RecoveryRules
from engine.flow.ownership.scheduler import AcquisitionScheduler
from engine.flow.ownership.starts import StartResolver
from engine.flow.ports.options import FlowOptions
from engine.flow.ports.ports import Cluster
from engine.flow.replication.committing import Commits
from engine.flow.replication.maintenance import MaintenanceLoop
from engine.flow.replication.map_retention import MapRetention
from engine.flow.replication.sets import Sets
from engine.flow.replication.snapshots import lane_progress
from engine.flow.replication.syncs import SyncWriter
from engine.wire.murmur2 import partition_for_key
from policies.model import LaneName, PartitionSet, TopicPartition
from policies.start import Start

_EVENTS_KEPT = 10_000


class _Done(Exception):
    """Ends the task group of a drained copier."""


class FlowCopier:
    """Copies the lanes of the partition sets it was assigned, until it is drained."""

    def __init__(
        self, options: FlowOptions, source: Cluster, target: Cluster, start_for: Callable[[str], Start]
    ) -> None:
        self.options = options
        self.drivers: dict[TopicPartition, LaneDriver] = {}
        self._lease_guard = LeaseGuard(self._go_on)
        self._meter = CopierMetrics()
        self._ends = SourceEnds(source, self.drivers)
        self._map_retention = MapRetention(
            options, target, self.drivers, lambda drivers: self.router.schedule_send(drivers)
        )
        self._failure_handler = FailureHandler(
            options, source, target, lambda: self.router, self._spawn, self.tell, lambda _: self._acquisitions.look()
        )
        events = InboxEvents(
            taken=self._taken,
            fault=self._failure_handler.source_fault,
            corrupt=self._failure_handler.corrupt,
            idle=self._failure_handler.idle,
            awake=self._awake,
            lost=lambda: None,  # the routes know whom that concerns
        )
        self.router = BrokerRouter(
            options,
            source,
            target,
            self.drivers,
            self._spawn,
            events,
            self._failure_handler.changed_topic,
            self._failure_handler.cut_off,
            self._lease_guard,
            self._meter,
        )
        recovery = PositionRecovery(options, source, target, StartResolver(source, start_for))
        rules = RecoveryRules(options, source, target, recovery)
        acquisition = Acquisition(options, target, recovery, rules, self._lease_guard)
        self._acquisitions = AcquisitionScheduler(
            options,
            target,
            self.drivers,
            acquisition,
            self.router,
            self._failure_handler,
            self._spawn,
            self.tell,
            self._owned,
        )
        self.maintenance = MaintenanceLoop(
            options,
            target,
            self.drivers,
            self.router,
            self._failure_handler,
            self._lease_guard,
            self._spawn,
            self._no_syncs,
        )
        self._sets = Sets(
            self.drivers,
            self.router,
            self._failure_handler,
            self._acquisitions,
            self._lease_guard,
            self._spawn,
            self._driver,
            self._gone,
            options.drain_s,
        )
        self._commits: Commits | None = None
        if options.commit_s:
            lost = lambda driver, reason: self._failure_handler.reacquire(driver, reason, fenced=True)  # noqa: E731
            self._commits = Commits(
                options.flow,
                target,
                self._lease_guard,
                self._spawn,
                self.router.schedule_send,
                lost,
                self._failure_handler.denials,
                self.tell,
            )
        self._syncs: SyncWriter | None = None
        if options.syncs is not None:
            syncs_on = source if options.syncs.on_source else target
            self._syncs = SyncWriter(options.flow, options.syncs, syncs_on, self.drivers, self._lease_guard, self.tell)
        self._events: deque[AnyEvent] = deque(maxlen=_EVENTS_KEPT)
        self.beside: list[Callable[[], Coroutine[Any, Any, None]]] = []
        """What else runs for as long as the copier does."""
        self._group: asyncio.TaskGroup | None = None
        self._drained = asyncio.Event()
        self._paused: set[str] = set()
        self._flow_paused = False
        self._turns = count()

    def _no_syncs(self) -> bool:
        """Whether nobody is told where the lanes are but by their positions."""
        return self._syncs is None or bool(self._syncs.trouble)

    # --- life ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Copy until `drain` has finished. What it raises is a bug: brokers and lanes may fail, this goes on."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self.router.leaders.keep())
                group.create_task(self.router.expiry.keep())
                group.create_task(self._acquisitions.run())
                group.create_task(self.maintenance.run())
                group.create_task(self._ends.run())
                group.create_task(self._map_retention.run())
                group.create_task(return_spare_memory(self.router.pool))
                group.create_task(self.router.giving_back.run())
                if self._syncs is not None:
                    group.create_task(self._syncs.run())
                if self._commits is not None:
                    group.create_task(self._commits.run())
                for run in self.beside:
                    group.create_task(run())
                await self._drained.wait()
                raise _Done
        except* _Done:
            pass
        finally:
            self._group = None

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        if self._group is None:
            coroutine.close()  # the copier has ended: nothing may outlive it
            return
        try:
            self._group.create_task(coroutine)
        except RuntimeError:  # it is being cancelled
            coroutine.close()

    def tell(self, event: AnyEvent) -> None:
        """Say something aloud: the next snapshot has it."""
        self._events.append(event)

    # --- the lease -------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """The lease has run out: start no fetch, append, position, keep-alive or acquisition from now on.

        What is in flight gets its outcome. A paused topic stays paused.
        """
        self._lease_guard.shut()

    def unhold(self) -> None:
        """Go on where everything stands, as long as the lease lasts."""
        self._lease_guard.open()

    @property
    def lease_until_s(self) -> float:
        """The instant of `engine.base.clock.now_s` from which the copier holds by itself; any thread may set it."""
        return self._lease_guard.lease_until_s

    @lease_until_s.setter
    def lease_until_s(self, at_s: float) -> None:
        self._lease_guard.lease_until_s = at_s

    def _go_on(self) -> None:
        for driver in self.drivers.values():
            if driver.producer is not None and not driver.producer.fenced:
                self._failure_handler.rejoin(driver)  # no broker tells whether somebody else has written meanwhile
        self.router.go_on()

    # --- sets ------------------------------------------------------------------------------------------------

    def assign(self, partition_set: PartitionSet) -> None:
        """Take a partition set, or what changed in one of ours: new lanes join, lanes that left it are drained.

        A lane that is being released joins again when that has ended. One that we hold goes over to a set of a higher
        epoch without a pause; what an older epoch says of it is ignored.
        """
        self._sets.assign(partition_set, running=self._group is not None)

    async def release(self, set_id: str) -> None:
        """Drain the lanes of a set, make their positions durable, forget them; may be called twice at once."""
        await self._sets.release(set_id)

    async def drain(self) -> None:
        """Finish what is in flight, make every position durable, end `run`."""
        await self._sets.drain()
        if self._syncs is not None:
            await self._syncs.flush()
        self._drained.set()

    def _driver(self, name: LaneName, partition_set: PartitionSet) -> LaneDriver:
        lane = Lane(self.options.flow, name, self.options.limits)
        lane.paused = self._flow_paused or name.source.topic in self._paused
        key = self.options.position_keys.encode(name.source)
        partition = TopicPartition(
            self.options.positions_topic, partition_for_key(key, self.options.positions_partitions)
        )
        commit_s, commits = self.options.commit_s, self._commits
        driver = LaneDriver(
            lane,
            partition_set.set_id,
            partition_set.epoch,
            CommittedPositions(lane, key, wall_ms, commit_s) if commits else PositionStream(lane, key, wall_ms),
            partition,
            next(self._turns),
            self._failure_handler.perform,
            self._appended,
            self._planned,
            self._meter,
            None if self.options.syncs is None else SyncEmitter(self.options.syncs.lag_max),
            self.options.transactional_id(*name.source),
        )
        if commits is not None:
            driver.on_progress = commits.look
        return driver

    def _gone(self, driver: LaneDriver) -> None:
        """Keep what a lane has counted that left, and tell where it stood."""
        if self._syncs is not None:
            self._syncs.leave(driver)
        topic = driver.name.source.topic
        self._meter.leave(topic, driver.lane.records, driver.lane.wire_bytes, driver.latency_ms)

    def pause(self, topics: frozenset[str] | None) -> None:
        """Stop fetching the whole flow (None) or some topics; what is in flight finishes, then positions go."""
        self._set_paused(topics, paused=True)
        self.router.schedule_send([driver for driver in self.drivers.values() if driver.lane.paused])

    def resume(self, topics: frozenset[str] | None) -> None:
        """Fetch again; a lane that had failed is acquired anew, a refused record is tried at once."""
        self._set_paused(topics, paused=False)
        for driver in self.drivers.values():
            if topics is not None and driver.name.source.topic not in topics:
                continue
            if driver.lane.state is State.FAILED:
                self._failure_handler.rejoin(driver)
            elif driver.lane.state is State.REFUSED:
                self._failure_handler.retry_now(driver)
        self.router.wake_inboxes()

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

    def progress(self) -> FlowProgress:
        """Take a snapshot; events since the last one are handed over once."""
        events = tuple(self._events)
        self._events.clear()
        now_ms = wall_ms()
        left = tuple(self._meter.left)
        return FlowProgress(
            flow=self.options.flow,
            at_ms=now_ms,
            lanes=tuple(lane_progress(driver, self.router, now_ms) for driver in self.drivers.values()),
            events=events,
            buffer_bytes=self.router.pool.used_bytes,
            set_ids=tuple(sorted({driver.set_id for driver in self.drivers.values()})),
            beat=self.maintenance.beat,
            records=sum(one.records for one in left) + sum(driver.lane.records for driver in self.drivers.values()),
            wire_bytes=sum(one.wire_bytes for one in left)
            + sum(driver.lane.wire_bytes for driver in self.drivers.values()),
            left=left,
            append_latency=self._meter.append_latency.snapshot(),
            replication_latency=self._meter.replication_latency.snapshot(),
            record_age=self._meter.record_age.snapshot(),
            append_failures=self._meter.append_failures,
        )

    # --- traffic ---------------------------------------------------------------------------------------------

    def _taken(self, drivers: list[LaneDriver]) -> None:
        """Lanes have new batches: send them on."""
        for driver in drivers:
            if driver.denied:
                self._failure_handler.denials.fetched(driver)
        self.router.schedule_send(drivers)

    def _awake(self, driver: LaneDriver) -> None:
        """A lane that only watched has something to copy: it needs an owner now."""
        self._failure_handler.denials.fetched(driver)
        driver.woken = True
        driver.lane.wake()
        self._acquisitions.look()

    def _appended(self, driver: LaneDriver) -> None:
        """A lane's append was acknowledged: it has room for more."""
        self.router.wake(driver)
        if driver.blocks.due or driver.lane.paused:  # the position of a paused lane goes with its last record
            self.router.schedule_send([driver])
        if driver.refused_told:
            self._failure_handler.released(driver)

    def _planned(self, driver: LaneDriver) -> None:
        """A lane's position is durable: what waited for it may be sent, or fetched."""
        self.router.wake(driver)
        self.router.schedule_send([driver])

    def _owned(self, drivers: Sequence[LaneDriver]) -> None:
        self.router.expiry.mark(drivers)
        for driver in drivers:
            driver.kept_alive_at = now_s()
            driver.flushed_bytes = driver.lane.wire_bytes
            if driver.lane.state in (State.COPYING, State.WATCHING):
                self._failure_handler.denials.allowed(driver)
                self._failure_handler.denials.kept_alive(driver)
        self.router.schedule_send(drivers)
        self.router.wake_inboxes()
