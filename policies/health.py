"""How a copier is, judged from what the supervisor sees of it. Pure; all times are seconds of the supervisor's clock.

The first line that fits:

| Seen | Verdict | What it means for its sets |
| --- | --- | --- |
| its process has ended, for certain | DEAD | free at once |
| no report yet, started less than `start_s` ago | OK | it has no lease, so it copies nothing yet |
| no report yet, though it answered `mute_s` ago | HUNG | it has none, and another is started |
| no report yet, started earlier | SLOW | it has none: it waits for a CPU or a node |
| its lease and the margin have run out | LOST | free: it has stopped itself, or the brokers refuse what it sends |
| its data loop stood still for `hung_s` up to its last report | HUNG | end its process, then they are free |
| no report for `late_s`, its lease holds | SLOW | its own: nobody else may touch them |
| else | OK | its own |

A node that vanished says nothing about the processes on it (it may only be cut off): that is no end for certain, the
lease decides. LOST is final once another has its sets: what it reports later is not worth judging.
"""

import enum

import msgspec


class Verdict(enum.StrEnum):
    """How a copier is; see the table above."""

    OK = "ok"
    SLOW = "slow"
    HUNG = "hung"
    LOST = "lost"
    DEAD = "dead"


class HealthLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Where the lines are, in seconds. Reports come every second, passes of a data loop too where nothing is copied."""

    start_s: float = 60.0
    """A process starts in seconds; more than this is waiting for a free CPU or a new node."""
    mute_s: float = 60.0
    """The first report follows the first answer within a second; here the machine may be starting much else."""
    late_s: float = 3.0
    hung_s: float = 10.0
    """Longer than the garbage collector, a large batch to re-encode or a busy machine holds a loop up."""
    margin_s: float = 1.0
    """Two clocks that run at different speeds, and an append that was handed to the kernel just before the end."""


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of one copier until `now_s`. `answered_s` is None until its process has answered at all,
    `last_report_s` until its first report.
    """

    now_s: float
    started_s: float
    last_report_s: float | None
    beat_changed_s: float
    """When the report came that first showed the present beat of its data loop."""
    lease_until_s: float
    """Until when its lease can last at most, by all that was ever said to it, answered or not."""
    died: bool = False
    answered_s: float | None = None


def judge(sighting: Sighting, limits: HealthLimits) -> Verdict:
    """Say how a copier is."""
    if sighting.died:
        return Verdict.DEAD
    if sighting.last_report_s is None:
        if sighting.answered_s is not None and sighting.now_s - sighting.answered_s > limits.mute_s:
            return Verdict.HUNG
        return Verdict.OK if sighting.now_s - sighting.started_s <= limits.start_s else Verdict.SLOW
    if sighting.now_s > sighting.lease_until_s + limits.margin_s:
        return Verdict.LOST
    if sighting.last_report_s - sighting.beat_changed_s > limits.hung_s:
        return Verdict.HUNG
    return Verdict.SLOW if sighting.now_s - sighting.last_report_s > limits.late_s else Verdict.OK


def reason(sighting: Sighting, limits: HealthLimits) -> str:
    """Say in words what the verdict rests on; empty for OK."""
    verdict = judge(sighting, limits)
    if verdict is Verdict.DEAD:
        return "its process has ended"
    if verdict is Verdict.LOST:
        return f"its lease ran out {sighting.now_s - sighting.lease_until_s:.1f} s ago"
    if sighting.last_report_s is None:
        if verdict is Verdict.HUNG:
            return "it has started, and never reported"
        waited_s = sighting.now_s - sighting.started_s
        return f"started {waited_s:.0f} s ago and has not answered yet" if verdict is Verdict.SLOW else ""
    if verdict is Verdict.HUNG:
        return f"it reports, but its data loop stood still for {sighting.last_report_s - sighting.beat_changed_s:.1f} s"
    return f"no report for {sighting.now_s - sighting.last_report_s:.1f} s" if verdict is Verdict.SLOW else ""
