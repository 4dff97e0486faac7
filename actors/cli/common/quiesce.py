"""Waits until paused lanes are at rest: nothing is being fetched, in flight, queued, or copied but not committed."""

import time
from collections.abc import Callable

from actors.model.requests import AnsweringMirror
from actors.model.status import MirrorStatus
from engine.core.reports.progress import LaneProgress

FIRST_POLL_S, POLL_S = 0.02, 0.25
"""Seconds between two checks, at first and at most; the interval grows by half each time."""


def until(timeout_s: float, holds: Callable[[], bool], *, most_s: float | None = None) -> bool:
    """Wait until a condition holds; return False after `timeout_s`. `most_s`: seconds between two checks, at most."""
    give_up_at_s, most_s = time.monotonic() + timeout_s, POLL_S if most_s is None else most_s
    rest_s = min(FIRST_POLL_S, most_s)
    while not holds():
        if time.monotonic() > give_up_at_s:
            return False
        time.sleep(rest_s)
        rest_s = min(1.5 * rest_s, most_s)
    return True


def comes_to_rest(mirror: AnsweringMirror, flow: str | None, topics: tuple[str, ...], timeout_s: float) -> bool:
    """Wait until a paused flow (None: every flow), or some of its topics, is at rest. Raises MirrorLost."""
    return until(timeout_s, lambda: rests(mirror.status(lanes=True), flow, topics))


def rests(status: MirrorStatus, flow: str | None, topics: tuple[str, ...]) -> bool:
    """Whether the copiers have received the pause and have finished what they had fetched."""
    flows = [one for one in status.flows if flow in (None, one.flow)]
    return all(one.heeded for one in flows) and not at_work(status, flow, topics)


def at_work(status: MirrorStatus, flow: str | None, topics: tuple[str, ...]) -> list[LaneProgress]:
    """Return the lanes of a flow (None: of every flow), or of some of its topics, that are not at rest."""
    ours = tuple(f"{one.flow}/" for one in status.flows if flow in (None, one.flow))
    lanes = [one for one in status.lanes if one.set_id.startswith(ours) and (not topics or one.lane.topic in topics)]
    return [lane for lane in lanes if not is_still(lane)]


def is_still(lane: LaneProgress) -> bool:
    """Whether a lane copies nothing, has nothing in flight, and everything it copied is committed.

    No copier commits for a lane that failed, so such a lane counts as at rest.
    """
    if lane.state == "copying" or lane.in_flight or lane.queued_bytes:
        return False
    return lane.committed or lane.state in ("failed", "stopped")
