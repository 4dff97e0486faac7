"""Handles lanes that need more than the next append: retry, split, settle, inspect, acquire again, give up."""

from functools import partial

import msgspec

from engine.base.clock import backoff_s, now_s, pause
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal, WireError
from engine.core.events.commit_events import CommitUnmarked
from engine.core.events.events import (
    HeldByTransaction,
    IdentityChanged,
    LaneRefused,
    LaneReleased,
    OwnershipLost,
    RecordRefused,
    SourceGap,
    TargetEaten,
)
from engine.core.lane.actions import (
    Action,
    Fail,
    Inspect,
    Reacquire,
    ReadTail,
    Retry,
    RetryRefused,
    Split,
    Unmarked,
    WriteAllowed,
    WriteDenied,
)
from engine.core.lane.batch_limit import SIZE_CONFIGS, most_bytes
from engine.core.lane.outcome import UNAUTHORIZED
from engine.core.lane.pending_batch import Payload
from engine.core.lane.states import State
from engine.core.position.missing import MissingRecords, missing_records
from engine.core.position.target_tail import Tail
from engine.flow.context.copier_context import CopierContext
from engine.flow.io.router import BrokerRouter
from engine.flow.lane.acquire_attempts import Divergence
from engine.flow.lane.corruption import corrupt_log, corrupt_source
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.lane.lane_health import HoldChange
from engine.flow.ownership.denials import Denials
from engine.flow.ownership.earlier_source import EarlierSource
from engine.flow.ownership.gap_inspector import GapInspector
from engine.flow.ownership.source_faults import FaultResponse, respond
from engine.flow.ports.ports import EARLIEST, LATEST, Slice
from engine.flow.refused.leaving_out import MAY_ARRIVE, LeavingOut, LeftOut
from engine.flow.refused.quarantine_writer import NotQuarantined
from engine.wire.batch import read_header
from engine.wire.merging.cut import cut, halves
from engine.wire.records import Coding, Encoded, reencode
from policies.model import TopicPartition
from policies.sync.topic_faults import OnRenewal


class FailureHandler:
    """Performs the actions that lanes ask for. A lane that has lost its owner goes back to the acquisition."""

    def __init__(self, context: CopierContext, router: BrokerRouter) -> None:
        self._context = context
        self._options = context.options
        self._source = context.source
        self._target = context.target
        self._router = router
        self._spawn = context.tasks.spawn
        self._report = context.events.report
        self.denials = Denials(context)
        self._earlier = EarlierSource(context)
        self._gaps = GapInspector(context, self.denials)
        self.leaving_out = LeavingOut(context, router.pool)

    def perform(self, driver: LaneDriver, action: Action) -> None:
        """Start the action that the lane asks for; no action blocks the data path."""
        match action:
            case Retry():
                self._router.leaders.look_up([driver])
                self._spawn(self._retry(driver, self._options.target_pace.retry.after_s(action.attempt)))
            case RetryRefused():
                self._refused(driver, action)
            case Split() if action.before and action.refused.indexes and self.leaving_out.wants(driver, action.refused):
                self._refused(driver, action.refused)
            case Split():
                self._spawn(self._split(driver, action))
            case ReadTail():
                self._spawn(self._settle(driver, action.target_offset))
            case Inspect():
                self._gaps.found(driver, action.first, action.last)
            case Unmarked():
                self._report(
                    CommitUnmarked(flow=self._options.flow, lane=driver.name.source, target_offset=action.target_offset)
                )
            case Reacquire():
                self.reacquire(driver, action.reason, fenced=action.fenced, settles=action.settles)
            case WriteDenied():
                self._spawn(self._ask_again(driver, action))
            case WriteAllowed():
                self.denials.write_allowed(driver, action.what)
            case Fail():
                self._context.fail(driver, action.event)

    # --- target side -----------------------------------------------------------------------------------------

    def retry_now(self, driver: LaneDriver) -> None:
        """Retry a refused lane at once, because a resume of the lane says that the cause is fixed."""
        self._spawn(self._retry(driver, 0.0))

    async def _retry(self, driver: LaneDriver, after_s: float) -> None:
        await pause(after_s)
        driver.lane.on_retry()
        driver.positions.on_retry()
        driver.blocks.on_retry()
        self._router.schedule_send([driver])
        self._router.wake(driver)

    def _refused(self, driver: LaneDriver, action: RetryRefused) -> None:
        if self.leaving_out.wants(driver, action):
            self._spawn(self._leave_out(driver, action))
        else:
            self._wait_refused(driver, action.event, action.attempt)

    async def _leave_out(self, driver: LaneDriver, action: RetryRefused) -> None:
        """Leave refused records out; if they cannot be made durable elsewhere, the lane waits as if they stayed."""
        if not action.indexes:  # the target does not say which: halves show it
            return await self._split(driver, Split(action.piece, action, halves(action.piece.record_count)))
        try:
            done = await self.leaving_out.leave_out(driver, action)
        except NotQuarantined as failed:
            if _stands_refused(driver):
                reason = f"{action.event.reason}; it is not left out, because {failed}"
                self._wait_refused(driver, msgspec.structs.replace(action.event, reason=reason), action.attempt)
            return None
        except WireError as error:
            error.offset = action.piece.source_base
            return self.corrupt(driver, error) if _stands_refused(driver) else None
        if done is LeftOut.REACQUIRE:
            return self.reacquire(driver, MAY_ARRIVE, fenced=False, settles=True)
        if done is LeftOut.DONE:
            self.released(driver)
            await self._retry(driver, 0.0)
        return None

    def _wait_refused(self, driver: LaneDriver, event: RecordRefused, attempt: int) -> None:
        if event.error_code in UNAUTHORIZED:
            self.denials.append_denied(driver, event)
        elif driver.health.refuse(event.text()):
            self._report(event)
        self._spawn(
            self._retry(driver, backoff_s(attempt, self._options.refused_retry_s, 12 * self._options.refused_retry_s))
        )

    def released(self, driver: LaneDriver) -> None:
        """Report that a refused lane has appended again, if it was refused."""
        self.denials.appended(driver)
        if driver.health.release():
            self._report(LaneReleased(flow=self._options.flow, lane=driver.name.source))

    async def _ask_again(self, driver: LaneDriver, denied: WriteDenied) -> None:
        """Report a missing right to write positions or map blocks, and retry later; the lane waits if it needs them."""
        appender = driver.writer_of(denied.what)
        self.denials.write_denied(driver, denied, appender.partition.topic)
        await pause(backoff_s(1, self._options.refused_retry_s, self._options.refused_retry_s))
        appender.stream.ask_again(denied.attempt)
        self._router.schedule_send([driver])

    async def _split(self, driver: LaneDriver, action: Split) -> None:
        """Cut a batch to the target's present size limit; in halves if it is below the limit, because it grows there.

        A merged batch with a refused record is cut around that record. Only a batch of a single record counts as
        refused.
        """
        piece = action.piece
        if not action.before:
            await self._learn_limit(driver)
            if not _stands_refused(driver):
                return None
            if piece.record_count == 1:
                return self._refused(driver, action.refused)
            driver.limit.refused(len(piece.payload))
        limits = driver.limit.bytes, self._options.inflated_bytes
        try:
            # In a thread, because the batch may be large. It is not in flight, so nothing writes to it.
            parts = await self._router.pool.work_beside(
                partial(_cut, piece.payload, driver.name.target, action.before, *limits)
            )
        except WireError as error:
            error.offset = piece.source_base
            return self.corrupt(driver, error) if _stands_refused(driver) else None
        if not _stands_refused(driver):
            return None
        driver.lane.on_split(piece, parts)
        return await self._retry(driver, 0.0)

    async def _learn_limit(self, driver: LaneDriver) -> None:
        """Ask for the target topic's size limit; if it cannot be read, the known one stays."""
        topic = driver.name.target.topic
        try:
            configs = (await self._target.topic_configs([topic], SIZE_CONFIGS)).get(topic, {})
        except (ConnectionLost, BrokerUnreachable, KafkaRefusal):
            configs = {}  # the batch is cut by the known limit, or in halves
        if _stands_refused(driver):
            driver.limit.learn(most_bytes(configs) or driver.limit.configured)

    async def _settle(self, driver: LaneDriver, first: int) -> None:
        """Let the lane decide by the log of a verified leader; it waits as long as there is none that answers."""
        producer, attempt = driver.producer, 0
        while driver.producer is producer and driver.lane.state is State.SETTLING:
            attempt += 1
            try:
                tail = await self._tail_of_verified(driver, first)
            except (ConnectionLost, BrokerUnreachable, KafkaRefusal, WireError) as error:
                if driver.producer is producer:
                    await self._wait_out(driver, error, attempt)
                continue
            self.denials.allowed(driver)
            if tail is None:
                await pause(backoff_s(attempt))
            elif driver.producer is producer:  # else acquired again during the read
                for action in driver.lane.on_tail(tail):
                    self.perform(driver, action)
                return

    async def _tail_of_verified(self, driver: LaneDriver, first: int) -> Tail | None:
        """Read a lane's target from the batch before `first` on, which shows whether the log was cut.

        None if its leader is not verified, or perhaps not the one that was read: that may have another log, so the
        verification comes first. Raises as the reads of `Cluster` do.
        """
        target, known = driver.name.target, driver.leaders.known
        if driver.leaders.doubted:
            return None
        start = (await self._target.offsets([target], EARLIEST))[target]
        end = (await self._target.offsets([target], LATEST))[target]
        batches = await self._target.read_headers(target, max(first - 1, start), end) if end >= first else ()
        # The reads went to whoever led by the newest metadata, and no later answer has an older leader.
        if (await self._target.leaders([target])).get(target) != known.leader:
            self._router.leaders.look_up([driver])
            return None
        tail = Tail(log_start=start, end=end, batches=tuple(batches))
        return tail if driver.leaders.is_still(known) else None

    async def _wait_out(self, driver: LaneDriver, error: Exception, attempt: int) -> None:
        """Wait a while after a failed read of the target, unless it stops the lane."""
        if isinstance(error, WireError):
            self._context.fail(driver, corrupt_log(self._options, driver.name, error))
        elif not isinstance(error, KafkaRefusal):
            await pause(backoff_s(attempt))
        elif self.denials.refused(driver, error):
            await pause(self._options.refused_retry_s)

    def reacquire(self, driver: LaneDriver, reason: str, *, fenced: bool, settles: bool = False) -> None:
        """Stop the lane and acquire it again: the first time at once, then with a back-off, a bounded number of times.

        `fenced`: another owner may have it now. `settles`: it is acquired only to learn what the log holds, which may
        happen as often as leaders move; such losses do not count. A lane that is already being acquired stays as it is.
        """
        if driver.lane.state not in (State.FAILED, State.STOPPED, State.ACQUIRING):
            driver.attempts.rest(driver.ownership.owned_at_s, now_s())
            driver.lane.disown()
            self.lose_again(driver, reason, fenced=fenced, settles=settles)

    def lose_again(self, driver: LaneDriver, reason: str, *, fenced: bool, settles: bool = False) -> None:
        """Count a lost acquisition, perhaps one in progress; schedule the next one, or give the lane up."""
        driver.health.explain(reason)
        if driver.attempts.lose(now_s(), fenced=fenced, settles=settles):
            event = OwnershipLost(
                flow=self._options.flow,
                lane=driver.name.source,
                assignment_epoch=driver.ownership.assignment_epoch,
                other_epoch=-1,
                other_deployment=f"unknown (lost {driver.attempts.in_a_row} times in a row, last because: {reason})",
            )
            self._context.fail(driver, event)
        else:
            self._context.ownerless.set()

    def cut_off(self, driver: LaneDriver, why: str) -> None:
        """Acquire a lane again whose target lacks acknowledged records; this rewinds it to what is left."""
        self.reacquire(driver, why, fenced=False)

    def rejoin(self, driver: LaneDriver) -> None:
        """Acquire a lane again on a request from outside: its counts begin again at 0."""
        if driver.lane.state is State.STOPPED:
            return
        driver.lane.disown()
        driver.attempts.begin_again(now_s())
        self._context.ownerless.set()

    # --- source side -----------------------------------------------------------------------------------------

    def source_fault(self, driver: LaneDriver, found: Slice) -> None:
        """Handle a fetch that failed for one partition, or that names another replica."""
        response = respond(found, leader_is_old=driver.source_is_old, reads_replica=driver.leaders.replica is not None)
        if response is FaultResponse.READ_REPLICA:
            return self._router.read_from(driver, found.preferred_replica)
        if response is FaultResponse.MEND_DIVERGENCE:
            return self._mend_divergence(driver, found)
        if response is FaultResponse.GIVE_UP and found.fault is not None:
            what = f"fetch: {found.fault.name}"
            return self._context.fail(driver, LaneRefused(flow=self._options.flow, lane=driver.name.source, what=what))
        if response is FaultResponse.WAIT_FOR_RIGHT and found.fault is not None:
            self.denials.fetch_denied(driver, found.fault)
        self._router.lose_source(driver)
        if response is FaultResponse.FIND_LEADER:
            self._earlier.faulted(driver)
        elif response is FaultResponse.CHECK_RANGE:
            self._spawn(self._out_of_range(driver))
        return None

    def _mend_divergence(self, driver: LaneDriver, found: Slice) -> None:
        if found.diverging is None:
            return
        epoch, end = found.diverging
        cause = f"the source's history diverges from the copied records at epoch {epoch}, offset {end}"
        first = min(end, driver.lane.fetch_offset)
        missing = MissingRecords(first, max(end, driver.lane.fetch_offset) - 1, cause)
        self._gap(driver, missing, Divergence(first, cause))

    def corrupt(self, driver: LaneDriver, error: WireError) -> None:
        """Stop a lane whose source batch violates the record format, or decompresses to more than the limit."""
        self._context.fail(driver, corrupt_source(self._options, driver.name.source, error))

    async def _out_of_range(self, driver: LaneDriver) -> None:
        source, wanted = driver.name.source, driver.lane.fetch_offset
        await self._source.survey([source])  # a stale leader reports a stale end
        try:
            start = (await self._source.offsets([source], EARLIEST))[source]
            end = (await self._source.offsets([source], LATEST))[source]
        except (ConnectionLost, BrokerUnreachable, KafkaRefusal):
            return  # the next fetch will report it again
        if not driver.lane.listens or driver.lane.fetch_offset != wanted:
            return
        missing = missing_records(wanted, start, end)
        if missing is not None:
            self._gap(driver, missing)

    def _gap(self, driver: LaneDriver, missing: MissingRecords, divergence: Divergence | None = None) -> None:
        """Stop the lane, or acquire it again if it may continue; the acquisition then reports the exact loss."""
        if self._options.may_continue(driver.name.source.topic):
            driver.attempts.diverged(divergence)
            return self.reacquire(driver, missing.cause, fenced=False)
        lane = driver.name.source
        event = SourceGap(
            flow=self._options.flow, lane=lane, first=missing.first, last=missing.last, cause=missing.cause
        )
        return self._context.fail(driver, event)

    def changed_topic(self, driver: LaneDriver, side: str, topic: str, expected: str, found: str) -> None:
        """Handle a topic whose id has changed since the lane's start: it was deleted and created again."""
        what = f"the id of {side} topic {topic}"
        if self._options.faults.on_renewal(driver.name.source.topic) is not OnRenewal.FAIL:
            self.reacquire(driver, f"{what} changed from {expected} to {found}", fenced=False)
        elif driver.lane.state is not State.FAILED:
            event = IdentityChanged(
                flow=self._options.flow, lane=driver.name.source, what=what, expected=expected, found=found
            )
            self._context.fail(driver, event)

    def retention_passed(self, driver: LaneDriver, log_start: int) -> None:
        """Report that the target's retention has passed the end of the copy: all that was copied is deleted there."""
        self._report(
            TargetEaten(
                flow=self._options.flow,
                lane=driver.name.source,
                target=driver.name.target,
                log_start=log_start,
                target_next=driver.lane.target_next,
            )
        )

    def idle(self, driver: LaneDriver, found: Slice) -> None:
        """Handle an empty fetch: at the log's end, or held at the last stable offset by an open transaction."""
        self.denials.fetched(driver)
        held = found.last_stable_offset < found.high_watermark and driver.lane.fetch_offset >= found.last_stable_offset
        change = driver.health.hold.note(
            is_held=held and self._options.fetch.read_committed,
            now_s=now_s(),
            report_after_s=self._options.held_after_s,
        )
        if change is HoldChange.HELD:
            self._spawn(self._name_holder(driver, found))
        elif change is HoldChange.RELEASED:
            driver.health.clear()
            self._report(LaneReleased(flow=self._options.flow, lane=driver.name.source))

    async def _name_holder(self, driver: LaneDriver, found: Slice) -> None:
        source = driver.name.source
        try:
            producers = (await self._source.producers([source])).get(source, [])
        except (ConnectionLost, BrokerUnreachable, KafkaRefusal):
            producers = []  # the event still says that the lane is held, and since when
        open_ones = sorted((p for p in producers if p.open_since_offset >= 0), key=lambda p: p.open_since_offset)
        event = HeldByTransaction(
            flow=self._options.flow,
            lane=source,
            last_stable_offset=found.last_stable_offset,
            high_watermark=found.high_watermark,
            producer_id=open_ones[0].producer_id if open_ones else -1,
            age_s=now_s() - (driver.health.hold.since_s or now_s()),
        )
        driver.health.explain(event.text())
        self._report(event)


def _stands_refused(driver: LaneDriver) -> bool:
    """Whether the lane still waits for the handling of its refusal; this may change at each await."""
    return driver.lane.state is State.REFUSED


def _cut(
    payload: Payload, target: TopicPartition, before: tuple[int, ...], max_batch_bytes: int, inflated_bytes: int
) -> list[Encoded]:
    """Rewrite a batch of several records as several batches, even if re-encoding makes it small enough for one.

    `before`: the indexes of the records to cut before; if empty, the batches are cut to `max_batch_bytes`.
    """
    header = read_header(payload, 0)
    if before:
        return cut(payload, header, before, *target, inflated_bytes=inflated_bytes)
    smaller = partial(reencode, payload, 0, header, *target, wanted_offset=0, coding=Coding(inflated_bytes))
    parts = smaller(max_batch_bytes=max_batch_bytes)
    return smaller(max_batch_bytes=len(parts[0].payload) // 2) if len(parts) == 1 else parts
