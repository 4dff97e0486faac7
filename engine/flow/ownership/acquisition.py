"""Acquires lanes in four steps: barrier, positions up to their end, tail of the copy, first position of this owner.

The order makes it safe: after the barrier no request of a previous owner can be appended, so what is read then is
final. A lane whose position has a higher assignment epoch gives up. `before` and `behind` serve many lanes at once,
`fence` serves one. An error of one lane is raised only after all the other lanes have been served.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from engine.base.clock import wall_ms
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal, OffsetGone, WireError
from engine.base.tasks import run_all
from engine.core.events.commit_events import CommitUndone
from engine.core.events.events import (
    AnyEvent,
    CopiedAgain,
    ForeignWriter,
    LaneRefused,
    OwnershipLost,
    ProducerChanged,
    Resumed,
    TargetCut,
    TargetGap,
    UnfencedOwnership,
)
from engine.core.lane.states import State
from engine.core.mm2.sync_emitter import last_pair
from engine.core.position.map_resume import resumed_map
from engine.core.position.owning import Owner, copied_leader_epoch, first_position, is_at_rest, is_superseded
from engine.core.position.position import Position
from engine.core.position.resume import REGRESSION, ResumePoint
from engine.core.position.stored_tail import UNDONE
from engine.flow.context.copier_context import CopierContext
from engine.flow.lane.corruption import corrupt_log
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ownership.position_recovery import FencedLane, PositionRecovery, PreFenceState
from engine.flow.ownership.recovery_rules import Recovered, RecoveryRules
from engine.flow.ownership.stored_positions import LogOffsets, Stored, Unreadable
from engine.flow.ownership.vacancies import Vacancies
from engine.flow.ports.ports import NO_TRANSACTIONS, Producer
from policies.model import TopicPartition

_AT_ONCE = 32
"""Barriers, and reads of a tail, in progress at once: enough to hide latency, few enough for a broker's queue."""
_SLOT_S = 2.0
"""A barrier that takes more seconds waits for something, so another barrier may start in parallel with it."""

_OVERTAKEN = 5
"""How often in a row retention may delete the offsets being read, before the whole acquisition starts again."""

_NO_RIGHT, _UNSUPPORTED = 53, 35
_DENIED = (
    "exactly.once.source.support is enabled, but the target does not allow raymirror transactions: grant Write and"
    " Describe on the transactional ids that begin with 'raymirror', or disable exactly.once.source.support"
)
_LACKING = (
    "exactly.once.source.support is enabled, but the target has no transactions: disable exactly.once.source.support,"
    " or use brokers that have them"
)


class Acquisition:
    """Acquires lanes of one flow, stage by stage."""

    def __init__(self, context: CopierContext, recovery: PositionRecovery, rules: RecoveryRules) -> None:
        self._context = context
        self._options = context.options
        self._lease = context.lease_guard
        self._report = context.events.report
        self._recovery = recovery
        self._rules = rules
        self._vacancies = Vacancies(context.options, context.target, recovery)
        self._slots = asyncio.Semaphore(_AT_ONCE)

    # --- without a barrier -----------------------------------------------------------------------------------

    async def rest(self, drivers: Sequence[LaneDriver]) -> None:
        """Let lanes with nothing to copy watch their source from the stored position, without an owner.

        Nothing is written for these lanes, so they need no fence: a previous owner that still runs continues from the
        same position. A lane that finds something to copy is acquired, and everything is read again after the barrier.
        A lane that has a newer owner is given up before it disturbs that owner.
        """
        stored = await self._recovery.stored(drivers)
        ours: list[LaneDriver] = []
        for driver in drivers:
            position = stored.get(driver.name.source)
            if isinstance(position, Position) and self._lost_to(position, driver):
                self._context.fail(driver, self._ownership_lost(driver, position))
            elif isinstance(position, Position):
                driver.attempts.read(position)
                ours.append(driver)
        # Read after the positions: if a previous owner copies in between, the ends do not fit: the lane is acquired.
        logs = await self._recovery.read_offsets(ours, stored=stored) if ours else LogOffsets()
        await run_all(*(self._watch(driver, stored[driver.name.source], logs) for driver in ours))

    async def _watch(self, driver: LaneDriver, stored: Stored, logs: LogOffsets) -> None:
        assert isinstance(stored, Position), "only lanes with a position of raymirror watch"
        ends = logs.ends_of(driver.name)
        if not is_at_rest(stored, ends) or self._recovery.changed_identity(driver, stored, logs) is not None:
            return
        async with self._slots:
            kept = not stored.atomic or await self._recovery.is_kept(driver, stored, logs)
        if kept and driver.lane.state is State.ACQUIRING:
            driver.watch_source(stored, ends.source_end, logs.asked_ms)

    # --- before the barrier ----------------------------------------------------------------------------------

    async def before(self, drivers: Sequence[LaneDriver], *, suspicious: bool) -> dict[TopicPartition, PreFenceState]:
        """Read the brokers' state before the barrier changes it; give up lanes that a newer owner has taken.

        Only lanes that another owner may have taken are checked for that; `suspicious`: all lanes are checked. The
        result leaves out lanes that were given up.
        """
        suspects = [driver for driver in drivers if suspicious or driver.attempts.reacquired]
        stored = await self._recovery.stored(suspects) if suspects else {}
        left: list[LaneDriver] = []
        for driver in drivers:
            position = stored.get(driver.name.source)
            if isinstance(position, Position) and self._lost_to(position, driver):
                self._context.fail(driver, self._ownership_lost(driver, position))
            else:
                left.append(driver)
        vacant = await self._vacancies.candidates(left)
        return await self._recovery.before(left, vacant) if left else {}

    def _lost_to(self, position: Position, driver: LaneDriver) -> bool:
        """Whether another owner wrote this since this copier had the lane; at one epoch the later deployment wins."""
        return is_superseded(
            position,
            assignment_epoch=driver.ownership.assignment_epoch,
            deployment_id=self._options.deployment_id,
            was_owned=driver.attempts.reacquired > 0,
        )

    # --- the barrier -----------------------------------------------------------------------------------------

    async def fence(self, driver: LaneDriver, before: PreFenceState) -> FencedLane:
        """Write one lane's barrier, unless it needs none; without a lease, wait for one first."""

        async def take() -> FencedLane:
            times_shut, leader = self._lease.times_shut, driver.leaders.known
            producer, vacant = await self._vacancies.take_producer(driver, before)
            return FencedLane(producer, before, times_shut, vacant, leader)

        async with self._slot():
            return await self._lease.while_open(take)

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        await self._slots.acquire()
        held = [self._slots]

        def give_back() -> None:
            while held:
                held.pop().release()

        timer = asyncio.get_running_loop().call_later(_SLOT_S, give_back)
        try:
            yield
        finally:
            timer.cancel()
            give_back()

    # --- behind the barrier ----------------------------------------------------------------------------------

    async def behind(self, fenced: Mapping[LaneDriver, FencedLane], *, waited: bool) -> dict[LaneDriver, FencedLane]:
        """Own every lane or fail it. Return lanes that must first wait for the last requests of previous owners.

        A lane that was stopped during the acquisition stays stopped.
        """
        drivers = list(fenced)
        final = all(one.producer.fenced for one in fenced.values())  # if not, a previous owner may still append
        stored = None if final else await self._recovery.stored(drivers)
        logs = await self._recovery.read_offsets(drivers, stored=stored)
        late: dict[LaneDriver, FencedLane] = {}
        for driver in drivers if not waited else ():
            if self._must_wait(driver, fenced[driver].producer, logs.stored.get(driver.name.source)):
                late[driver] = fenced[driver]
        ready = [driver for driver in drivers if driver not in late]
        if ready:
            await self._own_all(ready, fenced, logs)
        return late

    def _must_wait(self, driver: LaneDriver, producer: Producer, stored: Stored) -> bool:
        """Return whether a lane must wait, and report why its barrier fences no previous owner.

        A new producer id fences no previous owner, and without permission there is no barrier.
        """
        lane = driver.name.source
        if not producer.fenced and self._options.commit_s:
            return False  # `_judge` refuses it
        if not producer.fenced:
            self._report(UnfencedOwnership(flow=self._options.flow, lane=lane, reason=producer.unfenced_by))
        elif isinstance(stored, Position) and producer.producer_id != stored.producer_id:
            expected, found = stored.producer_id, producer.producer_id
            self._report(ProducerChanged(flow=self._options.flow, lane=lane, expected=expected, found=found))
        else:
            return False
        return isinstance(stored, Position)

    async def _own_all(
        self,
        drivers: Sequence[LaneDriver],
        fenced: Mapping[LaneDriver, FencedLane],
        logs: LogOffsets,
    ) -> None:
        judged: dict[LaneDriver, ResumePoint | Recovered | AnyEvent] = {}
        errors: list[ConnectionLost | BrokerUnreachable | KafkaRefusal] = []
        at_once = asyncio.Semaphore(_AT_ONCE)

        async def judge(driver: LaneDriver) -> None:
            try:
                async with at_once:
                    found = await self._judge_again(driver, fenced[driver], logs)
                self._vacancies.confirm(driver, fenced[driver], logs, found)
                judged[driver] = found
            except (ConnectionLost, BrokerUnreachable, KafkaRefusal) as error:
                errors.append(error)
            except WireError as error:
                judged[driver] = corrupt_log(self._options, driver.name, error)

        await run_all(*(judge(driver) for driver in drivers))
        for driver, found in judged.items():
            if not self._lease.is_open or fenced[driver].times_shut != self._lease.times_shut:
                errors.append(ConnectionLost("the lease ran out during the acquisition"))  # so the reads may be old
            elif driver.lane.state is State.ACQUIRING:
                self._own(driver, found, fenced[driver], logs)
        if errors:
            raise errors[0]

    async def _judge_again(
        self, driver: LaneDriver, fenced: FencedLane, logs: LogOffsets
    ) -> ResumePoint | Recovered | AnyEvent:
        """Judge a lane; if retention deleted the offsets being read, judge it again by the new log starts.

        The barrier stays the same: the leader's producer state from before it can be read only once, and may be the
        only trace of the copy that is left.
        """
        for _ in range(_OVERTAKEN):
            try:
                return await self._judge(driver, fenced, logs)
            except OffsetGone:
                await self._recovery.read_offsets_again(driver, logs)
        return await self._judge(driver, fenced, logs)

    async def _judge(
        self, driver: LaneDriver, fenced: FencedLane, logs: LogOffsets
    ) -> ResumePoint | Recovered | AnyEvent:
        """Return where the lane resumes with what is right before that, or the event that says why it cannot."""
        found = await self._resumes(driver, fenced, logs)
        if isinstance(found, Recovered):
            return Recovered(await self._recovery.with_behind(driver, fenced, logs, found.found), found.event)
        if isinstance(found, ResumePoint):
            return await self._recovery.with_behind(driver, fenced, logs, found)
        return found

    async def _resumes(
        self, driver: LaneDriver, fenced: FencedLane, logs: LogOffsets
    ) -> ResumePoint | Recovered | AnyEvent:
        stored = logs.stored.get(driver.name.source)
        if self._options.commit_s and not fenced.producer.fenced:
            raise _no_transactions(fenced.producer)
        if isinstance(stored, Unreadable):
            what = f"raymirror cannot use its position in {self._options.positions_topic}: {stored.reason}"
            return LaneRefused(flow=self._options.flow, lane=driver.name.source, what=what)
        if isinstance(stored, Position):
            if stored.assignment_epoch > driver.ownership.assignment_epoch:
                return self._ownership_lost(driver, stored)
            changed = await self._rules.renewed(driver, stored, fenced, logs)
            if changed is not None:
                return changed
            earlier = await self._recovery.earlier_source(driver, stored)
            if earlier is not None:
                return earlier
        found = await self._recovery.find(driver, fenced, logs)
        if isinstance(found, TargetGap):
            return found
        return await self._rules.source_gap(driver, found, logs) or found

    def _own(
        self,
        driver: LaneDriver,
        found: ResumePoint | Recovered | AnyEvent,
        fenced: FencedLane,
        logs: LogOffsets,
    ) -> None:
        mended = found.event if isinstance(found, Recovered) else None
        if isinstance(found, Recovered):
            found = found.found
        if not isinstance(found, ResumePoint):
            return self._context.fail(driver, found)
        if found.foreign:
            foreign = self._foreign(driver, found)
            if foreign.stopped:
                return self._context.fail(driver, foreign)
            self._report(foreign)
        if mended is not None:
            self._report(mended)
        stored = logs.stored.get(driver.name.source)
        if found.twice:
            first, last = found.twice
            self._report(CopiedAgain(flow=self._options.flow, lane=driver.name.source, first=first, last=last))
        if found.how == REGRESSION and isinstance(stored, Position):
            self._report(self._cut(driver, found, stored))
        if found.how == UNDONE and isinstance(stored, Position):
            self._report(self._undone(driver, found, stored))
        self._start(driver, fenced, found, logs)
        return self._report(self._resumed(driver, found))

    def _start(self, driver: LaneDriver, fenced: FencedLane, found: ResumePoint, logs: LogOffsets) -> None:
        producer, stored = fenced.producer, logs.stored.get(driver.name.source)
        assert not isinstance(stored, Unreadable), "a lane with an unreadable position cannot start"
        known = resumed_map(stored, found, wall_ms())
        owner = Owner(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            first_sequence=producer.first_sequence,
            assignment_epoch=driver.ownership.assignment_epoch,
            deployment_id=self._options.deployment_id,
            atomic=self._options.commit_s > 0,
            behind=fenced.behind(stored, found),
        )
        driver.begin(producer, found, last_pair(known.runs), alone=fenced.vacant, read=fenced.leader)
        driver.lane.own(
            first_position(owner, logs.identity_of(driver), found, known, copied_leader_epoch(stored, found)),
            barrier_done=fenced.marked,
            alone=fenced.vacant,
        )
        driver.end.reported(logs.source_ends[driver.name.source], logs.asked_ms)

    # --- events ----------------------------------------------------------------------------------------------

    def _foreign(self, driver: LaneDriver, found: ResumePoint) -> ForeignWriter:
        return ForeignWriter(
            flow=self._options.flow,
            lane=driver.name.source,
            target=driver.name.target,
            first=found.foreign[0][0],
            last=found.foreign[-1][1],
            stopped=self._options.stop_on_foreign_writer,
        )

    def _cut(self, driver: LaneDriver, found: ResumePoint, stored: Position) -> TargetCut:
        return TargetCut(
            flow=self._options.flow,
            lane=driver.name.source,
            expected=stored.target_next,
            found=found.target_next,
            source_offset=found.source_next,
        )

    def _undone(self, driver: LaneDriver, found: ResumePoint, stored: Position) -> CommitUndone:
        return CommitUndone(
            flow=self._options.flow,
            lane=driver.name.source,
            first=found.target_end,
            last=stored.target_next - 1,
            source_offset=found.source_next,
        )

    def _ownership_lost(self, driver: LaneDriver, stored: Position) -> OwnershipLost:
        return OwnershipLost(
            flow=self._options.flow,
            lane=driver.name.source,
            assignment_epoch=driver.ownership.assignment_epoch,
            other_epoch=stored.assignment_epoch,
            other_deployment=stored.deployment_id,
        )

    def _resumed(self, driver: LaneDriver, found: ResumePoint) -> Resumed:
        return Resumed(
            flow=self._options.flow,
            lane=driver.name.source,
            how=found.how,
            source_offset=found.source_next,
            target_offset=found.target_next,
            tail_records=found.tail_records,
        )


def _no_transactions(producer: Producer) -> KafkaRefusal:
    """Return the refusal of exactly-once mode: it may end by a grant, or never."""
    asked = "the lane's transactions"
    if producer.unfenced_by == NO_TRANSACTIONS:
        return KafkaRefusal(asked, _UNSUPPORTED, "UnsupportedVersion", _LACKING)
    return KafkaRefusal(asked, _NO_RIGHT, "TransactionalIdAuthorizationFailed", _DENIED)
