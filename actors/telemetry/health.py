"""Decides whether a mirror is alive and whether it is ready, for probes."""

from actors.model.states import Desired
from actors.model.status import MirrorStatus

BEAT_S = 30.0
"""Seconds without a step after which a supervisor counts as stuck or ended; it steps once a second."""


def why_dead(beat_age_s: float) -> str:
    """Return why the mirror counts as dead; empty while it lives."""
    return f"no step of the supervisor for {beat_age_s:.0f} s" if beat_age_s > BEAT_S else ""


def why_not_ready(status: MirrorStatus) -> str:
    """Return why the mirror does not do its work; empty if it does. A flow that is paused on purpose is no reason."""
    if status.phase not in ("running", "waiting"):
        return f"the mirror is {status.phase}"
    waiting = [flow for flow in status.flows if flow.waiting_for and flow.desired is Desired.RUNNING]
    return "; ".join(f"{flow.flow} waits for {flow.waiting_for}" for flow in waiting)
