"""Takes the snapshot of a lane, with a reason if the lane makes no progress; every state has a reason."""

from engine.core.lane.states import State
from engine.core.reports.progress import PAUSED, LaneProgress
from engine.core.reports.source_end import UNREACHED_END_LASTS_MS
from engine.core.streams.transaction import TransactionStage
from engine.flow.io.router import BrokerRouter
from engine.flow.lane.lane_driver import LaneDriver

_MOVED_MS = 2000
"""A lane with an acknowledged append in the last 2,000 ms makes progress, whatever it waits for now."""
_WATCHED_MS = 5000
"""A source end offset counts as current for 5,000 ms."""

_BY_STATE = {
    State.ACQUIRING: "taking ownership",
    State.TROUBLED: "an append failed ({fault}); waiting for the other answers",
    State.WAITING: "an append failed ({fault}); the batch is sent again soon",
    State.SETTLING: "reading the target's log, because the answers do not show which records it has ({fault})",
    State.REFUSED: "the target refuses a record ({fault})",
    State.STOPPED: "drained",
    State.FAILED: "failed",
}


_AT_WORK = (State.COPYING, State.WATCHING)
"""Status shows a lane that watches the end of its source as copying: it has caught up, and continues by itself."""


def _state(driver: LaneDriver) -> str:
    lane = driver.lane
    if driver.health.failed:
        return State.FAILED.value
    if lane.state not in _AT_WORK:
        return lane.state.value
    return PAUSED if lane.paused else State.COPYING.value


def lane_progress(driver: LaneDriver, router: BrokerRouter, now_ms: int) -> LaneProgress:
    """Take a snapshot of a lane at an instant of Unix time, ms."""
    lane, watch = driver.lane, driver.watch
    end = driver.end
    lag = end.offset - lane.source_next if end.offset >= 0 and lane.source_next >= 0 else -1
    if lag == 0:
        watch.caught_up_ms = max(watch.caught_up_ms, end.at_ms)
    watch.weigh(lane.wire_bytes, lane.offsets)
    return LaneProgress(
        lane=lane.name.source,
        target=lane.name.target,
        state=_state(driver),
        reason=why_still(driver, router, now_ms),
        source_next=lane.source_next,
        target_next=lane.target_next,
        source_end=end.offset,
        source_end_age_ms=end.age_ms(now_ms),
        source_reached=end.reached,
        records=lane.records,
        wire_bytes=lane.wire_bytes,
        in_flight=lane.in_flight,
        queued_bytes=lane.queued_bytes,
        resumed_by=driver.ownership.resumed_by,
        reencoded=lane.reencoded,
        skipped=lane.skipped,
        set_id=driver.ownership.set_id,
        epoch=driver.ownership.assignment_epoch,
        lag_bytes=watch.bytes_of(lag) if lag >= 0 else -1,
        newest_ms=lane.newest_ms,
        appended_at_ms=watch.appended_at_ms,
        behind_since_ms=_behind_since_ms(driver) if lag > 0 else -1,
        latency_ms=driver.latency_ms,
        began_ms=watch.began_ms,
        committed=is_committed(driver),
        held=router.turns.why_held(driver) if lag > 0 and lane.listens else "",
        bound=router.bound(driver) if lag > 0 and lane.state is State.COPYING else "",
    )


def _behind_since_ms(driver: LaneDriver) -> int:
    lane = driver.lane
    head_ms = lane.pieces.head_ms
    return driver.watch.behind_since_ms(
        head_ms if head_ms >= 0 else driver.watch.date_of(lane.source_next), lane.newest_ms
    )


def is_committed(driver: LaneDriver) -> bool:
    """Whether the position of all that a lane counts as copied is durable and, with transactions, committed.

    A lane that only watches is at a stored position; a lane that was never owned has copied nothing. A lane may have to
    copy records again while it is acquired again, or until its new target leader has reported the end of its log.
    """
    if driver.lane.state is State.WATCHING or driver.lane.map is None:
        return True
    stands = driver.lane.state is not State.ACQUIRING and not driver.leaders.doubted
    return stands and driver.positions.settled and not driver.marker_owed


def why_still(driver: LaneDriver, router: BrokerRouter, now_ms: int) -> str:
    """Return why a lane makes no progress; empty if it does, or has caught up."""
    lane = driver.lane
    if lane.state not in _AT_WORK:
        return driver.health.reason or _BY_STATE[lane.state].format(fault=driver.health.fault or "no answer")
    if lane.draining:
        return "drains"
    if lane.paused:
        if is_committed(driver):
            return "paused"
        return f"paused; waits until what it has copied is committed ({driver.health.fault or 'no answer yet'})"
    watched = now_ms - driver.end.at_ms < (_WATCHED_MS if driver.end.reached else UNREACHED_END_LASTS_MS)
    if watched and lane.source_next >= driver.end.offset:
        return ""  # checked early because it is cheap, and true of most lanes most of the time
    if now_ms - driver.watch.appended_at_ms < _MOVED_MS:
        return ""
    known = driver.health.reason or router.obstacle(driver) or router.turns.why_held(driver)
    return known or _waits_for(driver, watched=watched)


def _waits_for(driver: LaneDriver, *, watched: bool) -> str:
    """Return what a lane waits for if neither source nor target blocks it."""
    lane = driver.lane
    if lane.in_flight:
        return f"waits for the acknowledgement of target broker {driver.leaders.target.node}"
    if driver.transaction is not None and driver.transaction.stage in (
        TransactionStage.BEGINNING,
        TransactionStage.ENDING,
    ):
        return f"waits for the coordinator of its transaction ({driver.health.fault or 'no answer yet'})"
    if lane.plan_needed:
        return "waits until its position is durable"
    if lane.queued_bytes:
        return f"waits for its turn at target broker {driver.leaders.target.node}"
    if watched and driver.health.hold.since_s is not None:
        return "waits at the last stable offset for an open transaction"
    return f"waits for a fetch from source broker {driver.leaders.source_node}"
