"""Decides how many copiers a flow gets: from its rates, its lag and the time to drain the lag. Pure.

Measurements decide, not a guess about processors:

- **Behind**: the lag is old (`behind_s`) and at the present rates does not drain within `target_drain_s`. A flow that
  has been behind for `confirm_s` gets the copiers that would drain it in time, at most twice as many as it has.
- **Capacity**: the rate that one copier can carry. It is known only while the flow has lag: without lag a copier
  carries what arrives.
- **No use**: if new copiers do not raise the rate as expected, the bottleneck is elsewhere. The flow gets no more for
  `bar_s`. Then it gets one; if that does not help either, it gets none for twice as long, and so on.
- **Calm**: hardly any lag, and one copier less could carry the arriving records with room to spare. After
  `shrink_after_s` of that without a break, one copier is removed.

Between behind and calm lies a wide band in which nothing changes. Nothing changes either while rates mean nothing:
while copiers start or stop, for `settle_s` after that, and while nothing is copied at all (a target that is down is no
reason for more copiers).
"""

import math

import msgspec

from policies.words import counted

SMOOTH_S = 20.0
"""Seconds over which rates are smoothed."""
STALLED_FILL = 0.05
"""Share of the copiers' capacity: with lag and a rate of at most this share, the flow is stalled."""
STALLED = "the flow has lag but copies nothing: more copiers would not help"


class ScalingLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The operator's limits and goals, and the patience of the policy. Times are in seconds."""

    minimum: int = 1
    maximum: int = 1
    target_drain_s: float = 600.0
    behind_s: float = 30.0
    """Lag younger than this is never a reason for more copiers."""
    calm_s: float = 10.0
    """A flow with lag older than this is busy, never calm: its copiers work at their capacity."""
    confirm_s: float = 10.0
    settle_s: float = 30.0
    useful: float = 0.2
    """The share of the expected gain that new copiers must bring: twice as many copiers, at least a fifth more rate."""
    bar_s: float = 3600.0
    shrink_after_s: float = 900.0
    shrink_fill: float = 0.6
    """The share of their capacity that the remaining copiers may need after one is removed."""


class FlowLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of one flow at one instant; rates are means over about ten seconds, in bytes on the wire.

    `copiers`: the copiers that copy now. `sets`: partition sets with lanes. `lag_s`: age of the oldest record that is
    not copied yet but could be. Paused, failed and quarantined lanes count neither in `lag_s` nor in `lag_bytes`.
    """

    at_s: float
    copiers: int
    sets: int
    bytes_per_s: float
    arrival_bytes_per_s: float
    lag_bytes: float
    lag_s: float


class Trial(msgspec.Struct, frozen=True):
    """Copiers that were added and have not yet shown that they help."""

    before: int
    after: int
    bytes_per_s: float


class ScalingMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The state from one decision to the next; the first needs only `wanted`, the last decided number of copiers."""

    wanted: int
    at_s: float = -math.inf
    bytes_per_s: float = 0.0
    """Smoothed, like `arrival_bytes_per_s`; both start again whenever rates mean nothing."""
    arrival_bytes_per_s: float = 0.0
    unsettled_s: float = -math.inf
    """When rates last meant nothing."""
    behind_since_s: float = math.inf
    calm_since_s: float = math.inf
    capacity: float | None = None
    """Bytes per second that one copier can carry."""
    trial: Trial | None = None
    bars: int = 0
    """The number of failed trials in a row; `bar`: the result of the last one."""
    barred_until_s: float = -math.inf
    bar: str = ""


class Decision(msgspec.Struct, frozen=True):
    """The number of copiers, and why it changes, or why it does not change although the lag suggests it.

    `reason` keeps its wording while nothing changes, so each change of it is worth an event.
    """

    copiers: int
    reason: str = ""
    changed: bool = False


def decide(memory: ScalingMemory, load: FlowLoad, limits: ScalingLimits) -> tuple[ScalingMemory, Decision]:
    """Decide the number of copiers from one measurement; pass the returned memory to the next call.

    `at_s` must grow from call to call. More copiers than sets would be idle, so call this only when the sets are known.
    """
    most = max(1, min(limits.maximum, load.sets))
    least = min(limits.minimum, most)
    allowed = min(max(memory.wanted, least), most)
    if allowed != memory.wanted:
        sets = counted(load.sets, "partition set")
        return _resize(memory, load.at_s, allowed, f"{least} to {counted(most, 'copier')} allowed ({sets})")
    now = _judge_trial(_measure(memory, load, limits), load, limits)
    if load.at_s - now.behind_since_s >= limits.confirm_s:
        return _grow(now, load, limits, most)
    if load.at_s - now.calm_since_s >= limits.shrink_after_s and least < now.wanted >= load.copiers:
        return _shrink(now, load, limits)
    return now, Decision(now.wanted, STALLED if _is_stalled(now, load, limits) else "")


def _measure(memory: ScalingMemory, load: FlowLoad, limits: ScalingLimits) -> ScalingMemory:
    """Update the memory with a measurement: smoothed rates, capacity, since when the flow is behind or calm."""
    says_nothing = load.copiers != memory.wanted or _is_stalled(memory, load, limits) or memory.at_s == -math.inf
    unsettled_s = load.at_s if says_nothing else memory.unsettled_s
    # Smoothing starts again when the change itself is over: sets take seconds to move to their new copiers.
    is_new = load.at_s - unsettled_s < limits.settle_s / 2
    fresh = 1.0 if is_new else 1.0 - math.exp((memory.at_s - load.at_s) / SMOOTH_S)
    rate = memory.bytes_per_s + fresh * (load.bytes_per_s - memory.bytes_per_s)
    arrival = memory.arrival_bytes_per_s + fresh * (load.arrival_bytes_per_s - memory.arrival_bytes_per_s)
    is_settled = load.at_s - unsettled_s >= limits.settle_s
    is_busy = load.lag_s > limits.calm_s
    is_late = load.lag_s > limits.behind_s and _drain_s(rate, arrival, load.lag_bytes) > limits.target_drain_s
    capacity = rate / load.copiers if is_settled and is_busy else memory.capacity
    is_calm = not is_busy and arrival <= _fits(capacity, memory.wanted - 1, limits)
    return msgspec.structs.replace(
        memory,
        at_s=load.at_s,
        bytes_per_s=rate,
        arrival_bytes_per_s=arrival,
        unsettled_s=unsettled_s,
        behind_since_s=min(memory.behind_since_s, load.at_s) if is_settled and is_late else math.inf,
        calm_since_s=min(memory.calm_since_s, load.at_s) if is_calm else math.inf,
        capacity=capacity,
    )


def _is_stalled(memory: ScalingMemory, load: FlowLoad, limits: ScalingLimits) -> bool:
    """Whether the flow has lag and copies almost nothing."""
    expected = (memory.capacity or 0.0) * load.copiers
    return load.lag_s > limits.calm_s and load.bytes_per_s <= STALLED_FILL * expected


def _drain_s(rate: float, arrival: float, lag_bytes: float) -> float:
    return lag_bytes / (rate - arrival) if rate > arrival else math.inf


def _fits(capacity: float | None, copiers: int, limits: ScalingLimits) -> float:
    """Return the rate that this many copiers may get after a shrink; no limit while their capacity is unknown."""
    return math.inf if capacity is None else limits.shrink_fill * capacity * copiers


def _judge_trial(memory: ScalingMemory, load: FlowLoad, limits: ScalingLimits) -> ScalingMemory:
    """Check whether the added copiers have raised the rate; only a flow with lag can show that they have not."""
    trial = memory.trial
    if trial is None or load.at_s - memory.unsettled_s < limits.settle_s:
        return memory
    hoped = limits.useful * (trial.after / trial.before - 1.0)
    if load.lag_s <= limits.calm_s or memory.bytes_per_s >= (1.0 + hoped) * trial.bytes_per_s:
        return msgspec.structs.replace(memory, trial=None, bars=0)
    bar_s = limits.bar_s * 2.0 ** min(memory.bars, 5)
    bar = (
        f"{trial.after} copiers copy {_size(memory.bytes_per_s)}/s, {trial.before} copied {_size(trial.bytes_per_s)}/s:"
        f" the bottleneck is elsewhere, no more copiers for {_span(bar_s)}"
    )
    return msgspec.structs.replace(memory, trial=None, bars=memory.bars + 1, barred_until_s=load.at_s + bar_s, bar=bar)


def _grow(memory: ScalingMemory, load: FlowLoad, limits: ScalingLimits, most: int) -> tuple[ScalingMemory, Decision]:
    if load.at_s < memory.barred_until_s:
        return memory, Decision(memory.wanted, memory.bar)
    if memory.wanted == most:
        return memory, Decision(
            memory.wanted, f"the lag does not drain in time, but the flow may have at most {counted(most, 'copier')}"
        )
    rate, arrival = memory.bytes_per_s, memory.arrival_bytes_per_s
    # The flow is behind and settled. So it copies, its capacity is known (the rate over the copiers), and it needs more
    # copiers than it has, apart from rounding.
    needed = math.ceil((arrival + load.lag_bytes / limits.target_drain_s) / (rate / memory.wanted))
    at_once = 2 * memory.wanted if memory.bars == 0 else memory.wanted + 1
    wanted = min(max(needed, memory.wanted + 1), at_once, most)
    drain_s = _drain_s(rate, arrival, load.lag_bytes)
    drains = (
        f"drains in {_span(drain_s)} at {_size(rate)}/s"
        if drain_s < math.inf
        else f"does not drain ({_size(rate)}/s copied, {_size(arrival)}/s arrive)"
    )
    reason = f"lag {_size(load.lag_bytes)} {drains}, the goal is {_span(limits.target_drain_s)}"
    trial = Trial(memory.wanted, wanted, rate)
    return _resize(memory, load.at_s, wanted, reason, trial)


def _shrink(memory: ScalingMemory, load: FlowLoad, limits: ScalingLimits) -> tuple[ScalingMemory, Decision]:
    known = "that never had lag" if memory.capacity is None else f"that can carry {_size(memory.capacity)}/s each"
    reason = (
        f"lag under {limits.calm_s:.0f} s for {_span(limits.shrink_after_s)}, and {_size(memory.arrival_bytes_per_s)}/s"
        f" arrive for {counted(memory.wanted, 'copier')} {known}"
    )
    return _resize(memory, load.at_s, memory.wanted - 1, reason)


def _resize(
    memory: ScalingMemory, at_s: float, wanted: int, reason: str, trial: Trial | None = None
) -> tuple[ScalingMemory, Decision]:
    after = msgspec.structs.replace(
        memory,
        at_s=at_s,
        wanted=wanted,
        unsettled_s=at_s,
        behind_since_s=math.inf,
        calm_since_s=math.inf,
        trial=trial,
    )
    return after, Decision(wanted, f"{reason}: {memory.wanted} -> {counted(wanted, 'copier')}", changed=True)


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000.0:
            return f"{count:.1f} {unit}"
        count /= 1000.0
    return f"{count:.1f} TB"


def _span(seconds: float) -> str:
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 5400.0 else f"{seconds / 3600.0:.1f} h"
