"""Copies lanes of one flow in one process: owns the lanes, and every task that serves them.

    Inbox (one per source broker) -> Lane (core) -> Outbox (one per target broker)
                                       |  actions
                                       v
                           FailureHandler -> AcquisitionScheduler -> Acquisition

`LaneTraffic` passes what lanes report to the part that acts on it. Only the lane decides about records.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from itertools import count
from typing import Any

from engine.base.clock import Turns, wall_ms
from engine.core.events.events import AnyEvent
from engine.core.lane.lane import Lane
from engine.core.lane.states import State
from engine.core.mm2.sync_emitter import SyncEmitter
from engine.core.reports.progress import FlowProgress, LaneProgress
from engine.core.streams.position_stream import PositionStream
from engine.core.streams.transaction import CommittedPositions
from engine.flow.context.copier_context import CopierContext
from engine.flow.context.lease_guard import LeaseGuard
from engine.flow.io.ends import SourceEnds
from engine.flow.io.router import BrokerRouter
from engine.flow.io.spare_memory import return_spare_memory
from engine.flow.lane.lane_driver import LaneDriver, LaneStreams
from engine.flow.lane.lane_ownership import LaneOwnership
from engine.flow.ownership.acquisition import Acquisition
from engine.flow.ownership.failure_handler import FailureHandler
from engine.flow.ownership.position_recovery import PositionRecovery
from engine.flow.ownership.recovery_rules import RecoveryRules
from engine.flow.ownership.scheduler import AcquisitionScheduler
from engine.flow.ownership.starts import StartResolver
from engine.flow.ports.options import FlowOptions
from engine.flow.ports.ports import Cluster
from engine.flow.replication.committing import Commits
from engine.flow.replication.lane_traffic import LaneTraffic
from engine.flow.replication.maintenance import MaintenanceLoop
from engine.flow.replication.map_retention import MapRetention
from engine.flow.replication.sets import Sets
from engine.flow.replication.snapshots import lane_progress
from engine.flow.replication.syncs import SyncWriter
from engine.wire.murmur2 import partition_for_key
from policies.model import LaneName, PartitionSet, TopicPartition
from policies.start import Start
from policies.traffic import TrafficRules


class _Done(Exception):
    """Ends the task group of a drained copier."""


class FlowCopier:
    """Copies the lanes of the partition sets it was assigned, until it is drained."""

    def __init__(
        self,
        options: FlowOptions,
        source: Cluster,
        target: Cluster,
        start_for: Callable[[str], Start],
        syncs_to: Cluster | None = None,
    ) -> None:
        """`syncs_to`: the cluster of offset syncs over connections of their own, which may have another login."""
        self.options = options
        self._context = context = CopierContext(options, source, target, LeaseGuard(self._go_on))
        self.drivers = context.drivers
        self._traffic = LaneTraffic(context)
        self.router = BrokerRouter(context, self._traffic)
        self._failures = FailureHandler(context, self.router)
        self._commits = Commits(context, self.router, self._failures) if options.commit_s else None
        self._traffic.connect(self.router, self._failures, self._commits)
        recovery = PositionRecovery(options, source, target, StartResolver(source, start_for))
        acquisition = Acquisition(context, recovery, RecoveryRules(options, source, target, recovery))
        self._acquisitions = AcquisitionScheduler(context, acquisition, self.router, self._failures)
        self._syncs = None
        if (syncs := options.syncs) is not None:
            self._syncs = SyncWriter(context, syncs, syncs_to or (source if syncs.on_source else target))
        self.maintenance = MaintenanceLoop(context, self.router, self._failures, self._syncs)
        self._map_retention = MapRetention(context, self.router)
        self._ends = SourceEnds(source, self.drivers)
        self._sets = Sets(context, self.router, self._failures, self)
        self.auxiliary: list[Callable[[], Coroutine[Any, Any, None]]] = []
        """More coroutines to run for as long as the copier runs."""
        self._drained = asyncio.Event()
        self._paused: set[str] = set()
        self._flow_paused = False
        self._turns = count()

    # --- life ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Copy until `drain` has finished. Failures of brokers and lanes do not end it: an exception is a bug."""
        try:
            async with asyncio.TaskGroup() as group:
                self._context.tasks.open(group)
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
                for run in self.auxiliary:
                    group.create_task(run())
                await self._drained.wait()
                raise _Done
        except* _Done:
            pass
        finally:
            self._context.tasks.close()
            await self._failures.leaving_out.close()

    def report(self, event: AnyEvent) -> None:
        """Add an event to the next snapshot."""
        self._context.events.report(event)

    # --- the lease -------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Start no fetch, append, position, keep-alive or acquisition from now on: the lease has run out.

        Requests in flight get their outcome. A paused topic stays paused.
        """
        self._context.lease_guard.shut()

    def unhold(self) -> None:
        """Resume after `hold`, as long as the lease lasts."""
        self._context.lease_guard.open()

    @property
    def lease_until_s(self) -> float:
        """The time, by `engine.base.clock.now_s`, from which the copier holds by itself; any thread may set it."""
        return self._context.lease_guard.lease_until_s

    @lease_until_s.setter
    def lease_until_s(self, at_s: float) -> None:
        self._context.lease_guard.lease_until_s = at_s

    def _go_on(self) -> None:
        for driver in self.drivers.values():
            if driver.producer is not None and not driver.producer.fenced:
                self._failures.rejoin(driver)  # without a fence no broker reports whether another owner has written
        self.router.go_on()

    @property
    def beat(self) -> int:
        """A number that grows as long as the loop is alive; any thread may read it."""
        return self.maintenance.beat

    # --- sets ------------------------------------------------------------------------------------------------

    def assign(self, partition_set: PartitionSet) -> None:
        """Take a new partition set, or changes of an assigned set: new lanes join, lanes that left it are drained.

        A lane that is being released joins again after its release. A lane that this copier owns moves to a set of a
        higher epoch without a pause; a set of a lower epoch does not change it.
        """
        self._sets.assign(partition_set)

    async def release(self, set_id: str) -> None:
        """Drain the lanes of a set, make their positions durable, forget them; concurrent calls are safe."""
        await self._sets.release(set_id)

    async def drain(self) -> None:
        """Finish the batches in flight, make every position durable, end `run`."""
        await self._sets.drain()
        if self._syncs is not None:
            await self._syncs.flush()
        self._drained.set()

    def new_driver(self, name: LaneName, partition_set: PartitionSet) -> LaneDriver:
        """Create the driver of a lane that joins."""
        options = self.options
        lane = Lane(options.flow, name, self.router.lane_limits, options.echoes.get(name.source, ()))
        lane.paused = self._flow_paused or name.source.topic in self._paused
        key = options.position_keys.encode(name.source)
        streams = LaneStreams(
            CommittedPositions(lane, key, wall_ms, options.commit_s)
            if options.commit_s
            else PositionStream(lane, key, wall_ms),
            TopicPartition(options.positions_topic, partition_for_key(key, options.positions_partitions)),
            None if options.syncs is None else SyncEmitter(options.syncs.lag_max),
            options.transactional_id(*name.source),
        )
        ownership = LaneOwnership(partition_set.set_id, partition_set.epoch)
        return LaneDriver(lane, ownership, streams, next(self._turns), self._traffic, self._context.meter)

    def left(self, driver: LaneDriver) -> None:
        """Keep the counters of a lane that has left, and schedule its last offset sync."""
        if self._syncs is not None:
            self._syncs.leave(driver)
        topic = driver.name.source.topic
        self._context.meter.leave(topic, driver.lane.records, driver.lane.wire_bytes, driver.latency_ms)

    def pause(self, topics: frozenset[str] | None) -> None:
        """Stop fetching the whole flow (None) or some topics; batches in flight finish, then positions are written."""
        self._set_paused(topics, paused=True)
        self.router.schedule_send([driver for driver in self.drivers.values() if driver.lane.paused])

    def resume(self, topics: frozenset[str] | None) -> None:
        """Fetch again; acquire a failed lane again, and retry a refused record at once."""
        self._set_paused(topics, paused=False)
        for driver in self.drivers.values():
            if topics is not None and driver.name.source.topic not in topics:
                continue
            if driver.lane.state is State.FAILED:
                self._failures.rejoin(driver)
            elif driver.lane.state is State.REFUSED:
                self._failures.retry_now(driver)
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

    def limit(self, traffic: TrafficRules) -> None:
        """Fetch by other limits and classes from now on."""
        self.router.limit(traffic)

    def progress(self) -> FlowProgress:
        """Take a snapshot; each event is in one snapshot only."""
        return self._snapshot({})

    async def progress_in_turns(self) -> FlowProgress:
        """Take a snapshot, lane by lane over several turns of the loop: a thousand lanes at once take milliseconds."""
        turns, known = Turns(), dict[LaneDriver, LaneProgress]()
        for driver in list(self.drivers.values()):
            known[driver] = lane_progress(driver, self.router, wall_ms())
            await turns.rest()
        return self._snapshot(known)

    def _snapshot(self, known: Mapping[LaneDriver, LaneProgress]) -> FlowProgress:
        """Complete a snapshot: `known` has lanes that were looked at just now, some of which may have left since."""
        now_ms, meter = wall_ms(), self._context.meter
        left = tuple(meter.left)
        lanes = tuple(
            known.get(driver) or lane_progress(driver, self.router, now_ms) for driver in self.drivers.values()
        )
        return FlowProgress(
            flow=self.options.flow,
            at_ms=now_ms,
            lanes=lanes,
            events=self._context.events.take_all(),
            buffer_bytes=self.router.pool.used_bytes,
            set_ids=self._sets.ids,
            beat=self.beat,
            records=sum(one.records for one in left) + sum(lane.records for lane in lanes),
            wire_bytes=sum(one.wire_bytes for one in left) + sum(lane.wire_bytes for lane in lanes),
            left=left,
            append_latency=meter.append_latency.snapshot(),
            replication_latency=meter.replication_latency.snapshot(),
            record_age=meter.record_age.snapshot(),
            loop_stall=meter.loop_stall.snapshot(),
            append_failures=meter.append_failures,
            merged_batches=meter.merged_batches,
            merged_from=meter.merged_from,
            left_out=meter.left_out_records,
            range_vain_bytes=meter.vain_bytes,
            bandwidth=self.router.turns.use(),
        )
