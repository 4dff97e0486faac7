"""Judges the health of a copier from the supervisor's data. Pure; all times are seconds of the supervisor's clock.

The first row that fits decides:

| Fact | Verdict | Consequence for its sets |
| --- | --- | --- |
| its process has ended, for certain | DEAD | free at once |
| no report yet, started less than `start_s` ago | OK | it has no lease, so it copies nothing yet |
| no report yet, though it answered `mute_s` ago | HUNG | it has none, and another copier is started |
| no report yet, started earlier | SLOW | it has none: it waits for a CPU or a node |
| its lease and the margin have run out | LOST | free: it has stopped itself, or the brokers refuse its requests |
| its data loop made no progress for `hung_s` up to its last report | HUNG | end its process, then they are free |
| no report for `late_s`, its lease holds | SLOW | its own: no other copier may touch them |
| else | OK | its own |

If a node vanishes, its processes may still run (the node may only be cut off), so the lease decides. LOST is final once
another copier has the sets: later reports are not judged.
"""

import enum

import msgspec


class CopierHealth(enum.StrEnum):
    """The health of a copier; see the table above."""

    OK = "ok"
    SLOW = "slow"
    HUNG = "hung"
    LOST = "lost"
    DEAD = "dead"


class HealthLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits, in seconds. Reports come every second, from a copier at rest every three seconds.

    Passes of a data loop that copies nothing come every second.
    """

    start_s: float = 60.0
    """A process starts within seconds; after this long it waits for a free CPU or a new node."""
    mute_s: float = 60.0
    """The first report follows the first answer within 1 s; the rest is a margin for a busy machine."""
    late_s: float = 5.0
    """Later than a copier at rest reports (3 s), and earlier than its lease ends."""
    hung_s: float = 10.0
    """Longer than a garbage collection, a large batch to re-encode or a busy machine delays a loop."""
    margin_s: float = 1.0
    """For clocks of different speed, and for an append that the kernel got just before the lease ended."""


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """The observations of one copier until `now_s`.

    `answered_s` is None until its process has answered at all, `last_report_s` until its first report.
    """

    now_s: float
    started_s: float
    last_report_s: float | None
    beat_changed_s: float
    """When the first report with the present beat of its data loop arrived."""
    lease_until_s: float
    """The latest possible end of its lease, counting every renewal ever sent to it, answered or not."""
    died: bool = False
    answered_s: float | None = None


def judge(sighting: Sighting, limits: HealthLimits) -> CopierHealth:
    """Return the health of a copier."""
    if sighting.died:
        return CopierHealth.DEAD
    if sighting.last_report_s is None:
        if sighting.answered_s is not None and sighting.now_s - sighting.answered_s > limits.mute_s:
            return CopierHealth.HUNG
        return CopierHealth.OK if sighting.now_s - sighting.started_s <= limits.start_s else CopierHealth.SLOW
    if sighting.now_s > sighting.lease_until_s + limits.margin_s:
        return CopierHealth.LOST
    if sighting.last_report_s - sighting.beat_changed_s > limits.hung_s:
        return CopierHealth.HUNG
    return CopierHealth.SLOW if sighting.now_s - sighting.last_report_s > limits.late_s else CopierHealth.OK


def reason(sighting: Sighting, limits: HealthLimits) -> str:
    """Return the reason of the verdict in words; empty for OK."""
    verdict = judge(sighting, limits)
    if verdict is CopierHealth.DEAD:
        return "its process has ended"
    if verdict is CopierHealth.LOST:
        return f"its lease ran out {sighting.now_s - sighting.lease_until_s:.1f} s ago"
    if sighting.last_report_s is None:
        if verdict is CopierHealth.HUNG:
            return "it has started but never reported"
        waited_s = sighting.now_s - sighting.started_s
        return f"started {waited_s:.0f} s ago and has not answered yet" if verdict is CopierHealth.SLOW else ""
    if verdict is CopierHealth.HUNG:
        hung_s = sighting.last_report_s - sighting.beat_changed_s
        return f"it reports, but its data loop has made no progress for {hung_s:.1f} s"
    return f"no report for {sighting.now_s - sighting.last_report_s:.1f} s" if verdict is CopierHealth.SLOW else ""
