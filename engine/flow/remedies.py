"""What to do when a lane asks for more than the next append: retry, settle, inspect, acquire again, give up."""

from collections.abc import Callable
from functools import partial

from engine.clock import backoff_s, now_s, pause
from engine.core.actions import (
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
from engine.core.batch_limit import SIZE_CONFIGS, most_bytes
from engine.core.commit_events import CommitUnmarked
from engine.core.events import (
    AnyEvent,
    HeldByTransaction,
    IdentityChanged,
    LaneRefused,
    LaneReleased,
    OwnershipLost,
    RecordRefused,
    SourceGap,
    TargetEaten,
)
from engine.core.piece import Payload
from engine.core.resume import Tail
from engine.core.states import State
from engine.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal, WireError
from engine.flow.corruption import corrupt_source
from engine.flow.denials import Denials
from engine.flow.earlier_source import EarlierSource
from engine.flow.gap_inspector import GapInspector
from engine.flow.lane_driver import LaneDriver
from engine.flow.ports import EARLIEST, LATEST, Cluster, Slice
from engine.flow.routes import Routes, Spawn
from engine.flow.terms import FlowTerms
from engine.wire.batch import read_header
from engine.wire.records import Encoded, reencode
from policies.model import TopicPartition
from policies.topic_faults import OnGap, OnRenewal

_REACQUISITIONS = 5
"""Acquisitions in a row without one acknowledged record before a lane gives up."""
_FLAPS = 20
"""Acquisitions in a row that somebody else ended before long, whatever was copied between them: about a minute."""
_STEADY_S = 30.0
"""A lane that was owned for so long has come to rest."""
_JOIN_S = 5.0


class Remedies:
    """Performs the actions of the lanes; `join` hands a lane back to the acquisition."""

    def __init__(
        self,
        terms: FlowTerms,
        source: Cluster,
        target: Cluster,
        routes: Callable[[], Routes],
        spawn: Spawn,
        tell: Callable[[AnyEvent], None],
        join: Callable[[LaneDriver], None],
    ) -> None:
        self._terms = terms
        self._source = source
        self._target = target
        self._routes = routes
        self._spawn = spawn
        self._tell = tell
        self._join = join
        self.denials = Denials(terms.flow, tell, self.fail)
        self._earlier = EarlierSource(terms.flow, source, spawn, self.fail)
        self._gaps = GapInspector(terms, target, spawn, tell, self.fail, self.denials)

    def perform(self, driver: LaneDriver, action: Action) -> None:
        """Start what the lane asks for; none of it blocks the data path."""
        match action:
            case Retry():
                self._routes().leaders.look_up([driver])
                self._spawn(self._retry(driver, backoff_s(action.attempt)))
            case RetryRefused():
                self._refused(driver, action.event, action.attempt)
            case Split():
                self._spawn(self._split(driver, action))
            case ReadTail():
                self._spawn(self._settle(driver, action.target_offset))
            case Inspect():
                self._gaps.found(driver, action.first, action.last)
            case Unmarked():
                self._tell(
                    CommitUnmarked(flow=self._terms.flow, lane=driver.name.source, target_offset=action.target_offset)
                )
            case Reacquire():
                self.reacquire(driver, action.reason, fenced=action.fenced, settles=action.settles)
            case WriteDenied():
                self._spawn(self._ask_again(driver, action))
            case WriteAllowed():
                self.denials.write_allowed(driver, action.what)
            case Fail():
                self.fail(driver, action.event)

    def fail(self, driver: LaneDriver, event: AnyEvent) -> None:
        """Stop one lane and say why; the others go on."""
        driver.fail(event)
        self._tell(event)

    # --- target side -----------------------------------------------------------------------------------------

    def retry_now(self, driver: LaneDriver) -> None:
        """Somebody says that the cause of a refusal is mended."""
        self._spawn(self._retry(driver, 0.0))

    async def _retry(self, driver: LaneDriver, after_s: float) -> None:
        await pause(after_s)
        driver.lane.on_retry()
        driver.positions.on_retry()
        driver.blocks.on_retry()
        self._routes().kick([driver])
        self._routes().wake(driver)

    def _refused(self, driver: LaneDriver, event: RecordRefused, attempt: int) -> None:
        if not driver.refused_told:
            self._tell(event)
        driver.refused_told = True
        driver.reason = event.text()
        self._spawn(
            self._retry(driver, backoff_s(attempt, self._terms.refused_retry_s, 12 * self._terms.refused_retry_s))
        )

    def released(self, driver: LaneDriver) -> None:
        """A refused lane has appended again."""
        driver.refused_told = False
        driver.reason = ""
        self._tell(LaneReleased(flow=self._terms.flow, lane=driver.name.source))

    async def _ask_again(self, driver: LaneDriver, denied: WriteDenied) -> None:
        """A right to write beside the records has lapsed: the lane stands where it needs what is to be written."""
        appender = driver.writer_of(denied.what)
        self.denials.write_denied(driver, denied, appender.partition.topic)
        await pause(backoff_s(1, self._terms.refused_retry_s, self._terms.refused_retry_s))
        appender.stream.ask_again(denied.attempt)
        self._routes().kick([driver])

    async def _split(self, driver: LaneDriver, action: Split) -> None:
        """Cut a batch to the target's limit as it is now, or in halves where it is below that: it grows over there.

        Only a single record that is too large is refused.
        """
        piece, topic = action.piece, driver.name.target.topic
        try:
            configs = (await self._target.topic_configs([topic], SIZE_CONFIGS)).get(topic, {})
        except (ConnectionLost, BrokerUnreachable, KafkaRefusal):
            configs = {}  # by the limit that is known, and by half, again and again
        if not _stands_refused(driver):
            return None
        driver.limit.learn(most_bytes(configs) or driver.limit.told)
        if piece.record_count == 1:
            return self._refused(driver, action.refused.event, action.refused.attempt)
        driver.limit.refused(len(piece.payload))
        try:
            # It may be large, and is not in flight: nothing writes to it while a thread reads it.
            parts = await self._routes().pool.work_beside(
                partial(_cut, piece.payload, driver.name.target, driver.limit.bytes, self._terms.inflated_bytes)
            )
        except WireError as error:
            error.offset = piece.source_base
            return self.corrupt(driver, error) if _stands_refused(driver) else None
        if not _stands_refused(driver):
            return None
        driver.lane.on_split(piece, parts)
        return await self._retry(driver, 0.0)

    async def _settle(self, driver: LaneDriver, first: int) -> None:
        target, producer = driver.name.target, driver.producer
        try:
            start = (await self._target.offsets([target], EARLIEST))[target]
            end = (await self._target.offsets([target], LATEST))[target]
            batches = await self._target.read_headers(target, max(first, start), end)
        except (ConnectionLost, BrokerUnreachable, KafkaRefusal) as error:
            is_worth_it = await self._waits_out(driver, error)
            if is_worth_it and driver.producer is producer and driver.lane.state is State.SETTLING:
                self._spawn(self._settle(driver, first))
            return
        self.denials.allowed(driver)
        if driver.producer is not producer:
            return  # owned anew while we read
        for action in driver.lane.on_tail(Tail(log_start=start, end=end, batches=tuple(batches))):
            self.perform(driver, action)

    async def _waits_out(self, driver: LaneDriver, error: Exception) -> bool:
        """Wait a while after a read of the target that failed; return whether it may be tried again."""
        if isinstance(error, KafkaRefusal) and not self.denials.refused(driver, error):
            return False
        await pause(self._terms.refused_retry_s if isinstance(error, KafkaRefusal) else backoff_s(1))
        return True

    def reacquire(self, driver: LaneDriver, reason: str, *, fenced: bool, settles: bool = False) -> None:
        """Stop the lane and acquire it anew: the first time at once, then ever later, a bounded number of times.

        `fenced`: somebody else may have it. `settles`: only to learn what the log holds, as often as leaders move; such
        times do not count. A lane that is being acquired already stays as it is.
        """
        if driver.lane.state not in (State.FAILED, State.STOPPED, State.ACQUIRING):
            if now_s() - driver.owned_at_s >= _STEADY_S:
                driver.flaps = 0
            driver.lane.disown()
            self.lose_again(driver, reason, fenced=fenced, settles=settles)

    def lose_again(self, driver: LaneDriver, reason: str, *, fenced: bool, settles: bool = False) -> None:
        """A lane without an owner was lost, perhaps on its way to one: count, and join again or give up."""
        driver.reason = reason
        driver.reacquired += not settles
        driver.flaps += 1
        if fenced:
            driver.given_at_s = now_s()
        if driver.reacquired > _REACQUISITIONS or (fenced and driver.flaps > _FLAPS):
            event = OwnershipLost(
                flow=self._terms.flow,
                lane=driver.name.source,
                assignment_epoch=driver.assignment_epoch,
                other_epoch=-1,
                other_deployment=f"unknown, acquired {driver.flaps} times in a row: {reason}",
            )
            self.fail(driver, event)
        else:
            driver.join_at_s = now_s() + (backoff_s(driver.flaps - 1, most_s=_JOIN_S) if driver.flaps > 1 else 0.0)
            self._join(driver)

    def cut_off(self, driver: LaneDriver, end: int) -> None:
        """The target ends below what it had acknowledged: acquire anew, which rewinds to what is left."""
        below = f"the target ends at {end}, below the acknowledged end {driver.lane.target_next}: it lost records"
        self.reacquire(driver, below, fenced=False)

    def rejoin(self, driver: LaneDriver) -> None:
        """Acquire a lane anew because somebody outside says so: it counts from the beginning."""
        if driver.lane.state is State.STOPPED:
            return
        driver.lane.disown()
        driver.given_at_s = now_s()
        driver.reacquired = driver.flaps = 0
        driver.join_at_s = 0.0
        self._join(driver)

    # --- source side -----------------------------------------------------------------------------------------

    def source_fault(self, driver: LaneDriver, found: Slice) -> None:
        """A fetch failed for one partition, or points elsewhere."""
        lane, fault = driver.lane, found.fault
        if fault is None and found.preferred_replica >= 0:
            self._routes().read_from(driver, found.preferred_replica)
        elif driver.source_is_old:
            self._routes().lose_source(driver)  # what a leader of the past finds wrong is not
            self._earlier.faulted(driver)
        elif fault is None and found.diverging is not None:
            epoch, end = found.diverging
            cause = f"the source's history parts from what was copied at epoch {epoch}, offset {end}"
            first = min(end, lane.fetch_offset)
            self._gap(driver, first, max(end, lane.fetch_offset) - 1, cause, parted_at=first)
        elif fault is not None and driver.replica >= 0:
            self._routes().lose_source(driver)  # back to the leader before anything is believed
        elif fault is not None and fault.out_of_range:
            self._routes().lose_source(driver)
            self._spawn(self._out_of_range(driver))
        elif fault is not None and fault.denied:
            self.denials.fetch_denied(driver, fault)
            self._routes().lose_source(driver)
        elif fault is not None and fault.retry:
            self._routes().lose_source(driver)
            self._earlier.faulted(driver)
        elif fault is not None:
            self.fail(driver, LaneRefused(flow=self._terms.flow, lane=driver.name.source, what=f"fetch: {fault.name}"))

    def corrupt(self, driver: LaneDriver, error: WireError) -> None:
        """A source batch is not what the format says, or larger inside than it may be."""
        self.fail(driver, corrupt_source(self._terms, driver.name.source, error))

    async def _out_of_range(self, driver: LaneDriver) -> None:
        source, wanted = driver.name.source, driver.lane.fetch_offset
        await self._source.survey([source])  # a leader of the past has an end of the past
        try:
            start = (await self._source.offsets([source], EARLIEST))[source]
            end = (await self._source.offsets([source], LATEST))[source]
        except (ConnectionLost, BrokerUnreachable, KafkaRefusal):
            return  # the next fetch will say it again
        if not driver.lane.listens or driver.lane.fetch_offset != wanted:
            return
        if wanted < start:
            self._gap(
                driver, wanted, start - 1, "the source's log start passed the position: retention or deleted records"
            )
        elif wanted > end:
            self._gap(driver, end, wanted - 1, "the source ends before the position: it was truncated")

    def _gap(self, driver: LaneDriver, first: int, last: int, cause: str, parted_at: int = -1) -> None:
        """Stop the lane; where it is to go on, it is acquired anew, and what is lost is told there, exactly."""
        if self._terms.faults.on_gap(driver.name.source.topic) is not OnGap.FAIL:
            driver.parted_at, driver.parted_why = parted_at, cause
            return self.reacquire(driver, cause, fenced=False)
        event = SourceGap(flow=self._terms.flow, lane=driver.name.source, first=first, last=last, cause=cause)
        return self.fail(driver, event)

    def changed_topic(self, driver: LaneDriver, side: str, topic: str, expected: str, found: str) -> None:
        """A topic has another id than the one the lane began with: it was deleted and created again."""
        what = f"the id of {side} topic {topic}"
        if self._terms.faults.on_renewal(driver.name.source.topic) is not OnRenewal.FAIL:
            self.reacquire(driver, f"{what} changed from {expected} to {found}", fenced=False)
        elif driver.lane.state is not State.FAILED:
            event = IdentityChanged(
                flow=self._terms.flow, lane=driver.name.source, what=what, expected=expected, found=found
            )
            self.fail(driver, event)

    def eaten(self, driver: LaneDriver, log_start: int) -> None:
        """The target's retention has passed the end of the copy: what was copied is gone there already."""
        self._tell(
            TargetEaten(
                flow=self._terms.flow,
                lane=driver.name.source,
                target=driver.name.target,
                log_start=log_start,
                target_next=driver.lane.target_next,
            )
        )

    def idle(self, driver: LaneDriver, found: Slice) -> None:
        """A fetch brought nothing: at the end, or held at the last stable offset by an open transaction."""
        self.denials.fetched(driver)
        held = found.last_stable_offset < found.high_watermark and driver.lane.fetch_offset >= found.last_stable_offset
        if not held or not self._terms.fetch.read_committed:
            driver.held_since = None
            if driver.held_told:
                driver.held_told = False
                driver.reason = ""
                self._tell(LaneReleased(flow=self._terms.flow, lane=driver.name.source))
            return
        now = now_s()
        driver.held_since = driver.held_since if driver.held_since is not None else now
        if not driver.held_told and now - driver.held_since >= self._terms.held_after_s:
            driver.held_told = True
            self._spawn(self._name_holder(driver, found))

    async def _name_holder(self, driver: LaneDriver, found: Slice) -> None:
        source = driver.name.source
        try:
            producers = (await self._source.producers([source])).get(source, [])
        except (ConnectionLost, BrokerUnreachable, KafkaRefusal):
            producers = []  # the event still says that and since when
        open_ones = sorted((p for p in producers if p.open_since_offset >= 0), key=lambda p: p.open_since_offset)
        event = HeldByTransaction(
            flow=self._terms.flow,
            lane=source,
            last_stable_offset=found.last_stable_offset,
            high_watermark=found.high_watermark,
            producer_id=open_ones[0].producer_id if open_ones else -1,
            age_s=now_s() - (driver.held_since or now_s()),
        )
        driver.reason = event.text()
        self._tell(event)


def _stands_refused(driver: LaneDriver) -> bool:
    """Whether the lane still waits for what is done about a refusal; it may change at each await."""
    return driver.lane.state is State.REFUSED


def _cut(payload: Payload, target: TopicPartition, max_batch_bytes: int, inflated_bytes: int) -> list[Encoded]:
    """Write a batch of several records anew as several batches, even where our codec makes one small enough of it."""
    cut = partial(
        reencode, payload, 0, read_header(payload, 0), *target, wanted_offset=0, inflated_bytes=inflated_bytes
    )
    parts = cut(max_batch_bytes=max_batch_bytes)
    return cut(max_batch_bytes=len(parts[0].payload) // 2) if len(parts) == 1 else parts
