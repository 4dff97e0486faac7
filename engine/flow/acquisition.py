"""How lanes get their owner: barrier, then the positions to their end, then the tail, then a position of our own.

The order is the proof: behind the barrier no request of a former owner can append any more, so what is read then is
final. A lane whose position carries a higher assignment epoch stands down.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from engine.clock import pause
from engine.core.events import (
    AnyEvent,
    ForeignWriter,
    IdentityChanged,
    LaneRefused,
    OwnershipLost,
    ProducerChanged,
    Resumed,
    SourceGap,
    TargetGap,
    UnfencedOwnership,
)
from engine.core.position import ForeignPosition, Position, decode_key, decode_value
from engine.core.resume import Found, Tail, Unknown, read_tail
from engine.core.states import State
from engine.errors import ConnectionLost
from engine.flow.gate import Gate
from engine.flow.lane_driver import LaneDriver
from engine.flow.ports import EARLIEST, LATEST, Cluster, Producer, ProducerState
from engine.flow.starts import StartResolver
from engine.flow.terms import FlowTerms
from engine.tasks import run_all
from policies.model import TopicPartition

_AT_ONCE = 32
"""Barriers in progress at once: enough to hide the coordinator's latency, few enough for its queue."""
_REGRESSION_WINDOW = 100_000
"""Target offsets read back to find our last batch after the target lost records."""


class _Unreadable(msgspec.Struct, frozen=True):
    """A stored position that we must not touch."""

    reason: str


Stored = Position | ForeignPosition | _Unreadable | None


class _Known(msgspec.Struct, kw_only=True):
    """What was learned of one lane on the way."""

    producer: Producer
    end_before: int
    producers_before: list[ProducerState]


class _World(msgspec.Struct, kw_only=True):
    """What was learned of all lanes behind the barrier."""

    stored: dict[TopicPartition, Stored]
    source_starts: dict[TopicPartition, int]
    source_ends: dict[TopicPartition, int]
    target_starts: dict[TopicPartition, int]
    target_ends: dict[TopicPartition, int]
    source_cluster_id: str
    target_cluster_id: str


class Acquisition:
    """Acquires lanes of one flow, many at once."""

    def __init__(self, terms: FlowTerms, source: Cluster, target: Cluster, starts: StartResolver, lease: Gate) -> None:
        self._terms = terms
        self._source = source
        self._target = target
        self._starts = starts
        self._lease = lease

    async def acquire(self, drivers: Sequence[LaneDriver], tell: Callable[[AnyEvent], None]) -> None:
        """Own every lane or fail it, and tell its events as they come: a later lane may need another attempt.

        A lane that was stopped meanwhile stays as it is. Raises ConnectionLost or BrokerUnreachable: try again those
        that are still without an owner.
        """
        drivers = await self._not_ours_any_more([d for d in drivers if d.reacquired], tell) + [
            d for d in drivers if not d.reacquired
        ]
        if not drivers:
            return
        times_shut = self._lease.times_shut
        known = await self._fence(drivers)
        stored = await self._stored()
        if await self._await_old_owners(drivers, known, stored, tell):
            stored = await self._stored()  # unfenced, the old owner could still write positions
        world = await self._look(drivers, stored)
        if not self._lease.is_open or self._lease.times_shut != times_shut:
            raise ConnectionLost("the lease ran out meanwhile")  # what was read before may be old by now
        for driver in drivers:
            for event in await self._own(driver, known[driver.name.source], world):
                tell(event)

    # --- before: who owns it, what the brokers remember ------------------------------------------------------

    async def _not_ours_any_more(self, drivers: list[LaneDriver], tell: Callable[[AnyEvent], None]) -> list[LaneDriver]:
        """Check, before fencing anybody, that no newer owner has written its position; return the lanes still ours."""
        if not drivers:
            return []
        stored = await self._stored()
        ours: list[LaneDriver] = []
        for driver in drivers:
            position = stored.get(driver.name.source)
            if isinstance(position, Position) and position.assignment_epoch > driver.assignment_epoch:
                tell(self._stand_down(driver, position))
            else:
                ours.append(driver)
        return ours

    async def _fence(self, drivers: Sequence[LaneDriver]) -> dict[TopicPartition, _Known]:
        targets = [driver.name.target for driver in drivers]
        producers = await self._target.producers(targets)
        ends = await self._target.offsets(targets, LATEST)
        gate = asyncio.Semaphore(_AT_ONCE)
        known: dict[TopicPartition, _Known] = {}

        async def fence(driver: LaneDriver) -> None:
            target = driver.name.target
            transactional_id = self._terms.transactional_id(*driver.name.source)
            partitions = [target, driver.position_appender.partition]
            async with gate:
                producer = await self._lease.while_open(lambda: self._target.acquire(transactional_id, partitions))
            known[driver.name.source] = _Known(
                producer=producer, end_before=ends[target], producers_before=producers.get(target, [])
            )

        await run_all(*(fence(driver) for driver in drivers))
        return known

    # --- behind the barrier ----------------------------------------------------------------------------------

    async def _stored(self) -> dict[TopicPartition, Stored]:
        """Read the positions of this flow's source, last value per key."""
        found: dict[TopicPartition, Stored] = {}
        for key, value in await self._target.read_records(self._terms.positions_topic):
            decoded = decode_key(key) if key is not None else None
            if decoded is not None and decoded[0] == self._terms.flow.source:
                try:
                    found[decoded[1]] = decode_value(value)
                except ValueError as error:
                    found[decoded[1]] = _Unreadable(reason=str(error))
        return found

    async def _look(self, drivers: Sequence[LaneDriver], stored: dict[TopicPartition, Stored]) -> _World:
        sources = [driver.name.source for driver in drivers]
        targets = [driver.name.target for driver in drivers]
        return _World(
            stored=stored,
            source_starts=await self._source.offsets(sources, EARLIEST),
            source_ends=await self._source.offsets(sources, LATEST),
            target_starts=await self._target.offsets(targets, EARLIEST),
            target_ends=await self._target.offsets(targets, LATEST),
            source_cluster_id=await self._source.cluster_id(),
            target_cluster_id=await self._target.cluster_id(),
        )

    async def _own(self, driver: LaneDriver, known: _Known, world: _World) -> list[AnyEvent]:
        stored = world.stored.get(driver.name.source)
        events: list[AnyEvent] = []
        if isinstance(stored, _Unreadable):
            what = f"its position in {self._terms.positions_topic}: {stored.reason}"
            return [self._fail(driver, LaneRefused(flow=self._terms.flow, lane=driver.name.source, what=what))]
        if isinstance(stored, Position):
            if stored.assignment_epoch > driver.assignment_epoch:
                return [self._stand_down(driver, stored)]
            changed = self._changed_identity(driver, stored, world)
            if changed is not None:
                return [self._fail(driver, changed)]
        found = await self._find(driver, stored, known, world)
        if driver.lane.state is not State.ACQUIRING:
            return events  # released or drained while we asked
        if not isinstance(found, Found):
            return [*events, self._fail(driver, found)]
        if found.foreign:
            foreign = self._foreign(driver, found)
            events.append(foreign)
            if foreign.stopped:
                return [*events[:-1], self._fail(driver, foreign)]
        gap = self._source_gap(driver, found, world)
        if gap is not None:
            return [*events, self._fail(driver, gap)]
        # The epoch of the last copied batch: known where nothing lies behind the position.
        epoch = stored.source_leader_epoch if isinstance(stored, Position) and not found.tail_records else -1
        self._start(driver, known.producer, found, world, epoch)
        return [*events, self._resumed(driver, found)]

    async def _await_old_owners(
        self,
        drivers: Sequence[LaneDriver],
        known: dict[TopicPartition, _Known],
        stored: dict[TopicPartition, Stored],
        tell: Callable[[AnyEvent], None],
    ) -> bool:
        """A new producer id fences nobody: give the old owners' last requests time to arrive; whether it was needed."""
        wait = False
        for driver in drivers:
            lane, producer = driver.name.source, known[driver.name.source].producer
            position = stored.get(lane)
            if not producer.fenced:
                reason = "not authorised for transactional ids"
                tell(UnfencedOwnership(flow=self._terms.flow, lane=lane, reason=reason))
            elif isinstance(position, Position) and producer.producer_id != position.producer_id:
                expected, found = position.producer_id, producer.producer_id
                tell(ProducerChanged(flow=self._terms.flow, lane=lane, expected=expected, found=found))
            else:
                continue
            wait = wait or isinstance(position, Position)
        if wait:
            await pause(self._terms.takeover_wait_s)
        return wait

    async def _find(
        self, driver: LaneDriver, stored: Stored, known: _Known, world: _World
    ) -> Found | TargetGap | ForeignWriter:
        target = driver.name.target
        start, end = world.target_starts[target], world.target_ends[target]
        if isinstance(stored, Position):
            found = read_tail(stored, await self._tail(driver, stored, known, start, end))
            if isinstance(found, Unknown):
                return self._target_gap(driver, found)
            return found
        if isinstance(stored, ForeignPosition):
            return Found(
                source_next=stored.offset + 1, target_next=end, sequence=0, how="MM2's position", tail_records=0
            )
        source_next = await self._starts.resolve(driver.name.source)
        foreign = await self._first_data(target, start, end)
        return Found(
            source_next=source_next,
            target_next=end,
            sequence=0,
            how="start",
            tail_records=0,
            foreign=() if foreign is None else ((foreign, end - 1),),
        )

    async def _tail(self, driver: LaneDriver, stored: Position, known: _Known, start: int, end: int) -> Tail:
        target = driver.name.target
        regressed = end < stored.target_next
        first = max(start, end - _REGRESSION_WINDOW if regressed else stored.target_next)
        batches = await self._target.read_headers(target, first, end)
        markers = sum(1 for batch in batches if batch.is_control and batch.base_offset >= known.end_before)
        untouched = known.end_before + markers >= end
        ours = (stored.producer_id, stored.producer_epoch)
        state = [p for p in known.producers_before if (p.producer_id, p.epoch) == ours]
        last = state[0].last_sequence if untouched and state and state[0].last_sequence >= 0 else None
        return Tail(log_start=start, end=end, batches=tuple(batches), last_sequence=last)

    async def _first_data(self, target: TopicPartition, start: int, end: int) -> int | None:
        """Return the first offset that holds records and not a marker, None in an empty log."""
        while start < end:
            batches = await self._target.read_headers(target, start, start + 1)  # one read; the log may be long
            for batch in batches:
                if not batch.is_control:
                    return batch.base_offset
            if not batches:
                break
            start = batches[-1].next_offset
        return None

    # --- answers ---------------------------------------------------------------------------------------------

    def _start(self, driver: LaneDriver, producer: Producer, found: Found, world: _World, epoch: int) -> None:
        source, target = driver.source_leader, driver.target_leader
        driver.producer = producer
        driver.resumed_by = found.how
        driver.source_topic_id, driver.target_topic_id = source.topic_id, target.topic_id
        driver.positions.begin()
        driver.lane.own(
            Position(
                source_next=found.source_next,
                target_next=found.target_next,
                sequence=producer.first_sequence,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                runs=((producer.first_sequence, found.source_next),),
                assignment_epoch=driver.assignment_epoch,
                deployment_id=self._terms.deployment_id,
                source_leader_epoch=epoch,
                source_topic_id=source.topic_id,
                target_topic_id=target.topic_id,
                source_cluster_id=world.source_cluster_id,
                target_cluster_id=world.target_cluster_id,
            ),
            barrier_done=producer.fenced,
        )
        driver.source_end = world.source_ends[driver.name.source]
        driver.reason = ""

    def _changed_identity(self, driver: LaneDriver, stored: Position, world: _World) -> IdentityChanged | None:
        source, target = driver.name
        checks = (
            (f"the id of source topic {source.topic}", stored.source_topic_id, driver.source_leader.topic_id),
            (f"the id of target topic {target.topic}", stored.target_topic_id, driver.target_leader.topic_id),
            ("the source cluster's id", stored.source_cluster_id, world.source_cluster_id),
            ("the target cluster's id", stored.target_cluster_id, world.target_cluster_id),
        )
        for what, expected, found in checks:
            if expected and found and expected != found:
                return IdentityChanged(flow=self._terms.flow, lane=source, what=what, expected=expected, found=found)
        return None

    def _source_gap(self, driver: LaneDriver, found: Found, world: _World) -> SourceGap | None:
        lane = driver.name.source
        start, end = world.source_starts[lane], world.source_ends[lane]
        if found.source_next < start:
            return SourceGap(
                flow=self._terms.flow,
                lane=lane,
                first=found.source_next,
                last=start - 1,
                cause="the source's log start passed the position: retention or deleted records",
            )
        if found.source_next > end:
            return SourceGap(
                flow=self._terms.flow,
                lane=lane,
                first=end,
                last=found.source_next - 1,
                cause="the source ends before the position: it was truncated",
            )
        return None

    def _target_gap(self, driver: LaneDriver, found: Unknown) -> TargetGap:
        return TargetGap(
            flow=self._terms.flow,
            lane=driver.name.source,
            expected=found.expected,
            found=found.found,
            cause=found.cause,
        )

    def _foreign(self, driver: LaneDriver, found: Found) -> ForeignWriter:
        return ForeignWriter(
            flow=self._terms.flow,
            lane=driver.name.source,
            target=driver.name.target,
            first=found.foreign[0][0],
            last=found.foreign[-1][1],
            stopped=self._terms.stop_on_foreign_writer,
        )

    def _stand_down(self, driver: LaneDriver, stored: Position) -> AnyEvent:
        event = OwnershipLost(
            flow=self._terms.flow,
            lane=driver.name.source,
            assignment_epoch=driver.assignment_epoch,
            other_epoch=stored.assignment_epoch,
            other_deployment=stored.deployment_id,
        )
        return self._fail(driver, event)

    def _resumed(self, driver: LaneDriver, found: Found) -> Resumed:
        return Resumed(
            flow=self._terms.flow,
            lane=driver.name.source,
            how=found.how,
            source_offset=found.source_next,
            target_offset=found.target_next,
            tail_records=found.tail_records,
        )

    def _fail(self, driver: LaneDriver, event: AnyEvent) -> AnyEvent:
        driver.fail(event)
        return event
