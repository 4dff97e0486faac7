"""Decides how many copiers a flow should have: it measures the load, and `policies.placement.scaling` decides.

Until the flow is known (its sets, and who holds them) the number does not change.
"""

import math
from collections import deque
from typing import NamedTuple

from actors.control.event_journal import EventJournal
from actors.control.flow_metrics import FlowMetrics
from actors.control.flow_state import FlowState
from actors.model.events import Scaled
from engine.core.reports.progress import FlowProgress
from policies.model import TopicPartition
from policies.placement.scaling import FlowLoad, ScalingLimits, ScalingMemory, decide

DECIDE_S = 5.0
"""Seconds between two decisions: the policy smooths over several times as long."""
STEP_S = 1.0
"""Most seconds between two steps: each measures some copiers, so that no step has ten thousand lanes to sum up."""
ARRIVAL_S = 10.0
"""Least seconds over which arrivals are counted."""
NOT_MOVABLE = ("failed", "stopped")
"""States of lanes whose lag no copier could drain."""


class _CopierLoad(NamedTuple):
    """Sums over one copier's lanes, as last measured."""

    lag_bytes: int
    lag_records: int
    lag_s: float
    arrivals_per_s: float
    """Records per second that arrived at the source."""


class Scaler:
    """Scales one flow."""

    def __init__(
        self, flow_state: FlowState, metrics: FlowMetrics, limits: ScalingLimits, events: EventJournal
    ) -> None:
        self._flow_state, self._metrics, self._limits, self._events = flow_state, metrics, limits, events
        self._memory = ScalingMemory(wanted=flow_state.copiers_wanted)
        self._reason = ""
        self._at_s: float | None = None
        self._parts: dict[str, _CopierLoad] = {}
        self._left: set[str] = set()
        """Copiers not measured since the last decision."""
        self._ends: dict[str, deque[tuple[float, dict[TopicPartition, int]]]] = {}

    def limit(self, limits: ScalingLimits) -> None:
        """Scale between other limits from now on, and forget what was learned under the previous ones."""
        if limits != self._limits:
            self._limits, self._memory = limits, ScalingMemory(wanted=self._flow_state.copiers_wanted)

    def update(self, at_s: float, now_ms: int) -> None:
        """Measure some copiers; decide how many are wanted if it is time. `at_s` is monotonic, `now_ms` Unix time."""
        flow_state = self._flow_state
        if self._limits.minimum == self._limits.maximum:
            return
        if self._at_s is None:
            self._at_s = at_s
        is_due = at_s - self._at_s >= DECIDE_S
        sets = sum(1 for group in flow_state.ownership.sets.values() if group.lanes)
        if flow_state.ownership.owner and sets:
            self._measure(at_s, now_ms, all_left=is_due)
        if not is_due:
            return
        self._at_s = at_s
        if not flow_state.ownership.owner or not sets:
            return
        self._memory, decision = decide(self._memory, self._load(at_s, sets), self._limits)
        flow_state.copiers_wanted = decision.copiers
        if decision.reason != self._reason:
            self._reason = decision.reason
            if decision.reason:
                self._events.note(Scaled(flow=flow_state.flow, copiers=decision.copiers, reason=decision.reason))

    def _measure(self, at_s: float, now_ms: int, *, all_left: bool) -> None:
        """Measure copiers that were not measured since the last decision: the next few, or all that are left."""
        reported = self._flow_state.reported()
        for copier_id in self._parts.keys() - reported.keys():
            del self._parts[copier_id], self._ends[copier_id]
        left = sorted(self._left & reported.keys() | (reported.keys() - self._parts.keys()))
        turn = left if all_left else left[: math.ceil(len(reported) * STEP_S / DECIDE_S)]
        for copier_id in turn:
            self._parts[copier_id] = self._measured(copier_id, reported[copier_id], at_s, now_ms)
        self._left = set(reported) if all_left else set(left) - set(turn)

    def _measured(self, copier_id: str, progress: FlowProgress, at_s: float, now_ms: int) -> _CopierLoad:
        """Sum a copier's lanes up in one pass."""
        quarantined, paused = self._flow_state.quarantined(), self._flow_state.wanted.paused_topics
        lag_bytes = lag_records = 0
        oldest_ms, ends = now_ms, {}
        for lane in progress.lanes:
            if lane.state in NOT_MOVABLE or lane.lane.topic in paused or lane.set_id in quarantined:
                continue  # more copiers would not advance it
            if lane.source_end < 0 or lane.source_next < 0:
                continue
            ends[lane.lane] = lane.source_end
            if lane.source_end > lane.source_next:
                lag_records += lane.source_end - lane.source_next
                lag_bytes += max(0, lane.lag_bytes)
                if 0 <= lane.behind_since_ms < oldest_ms:
                    oldest_ms = lane.behind_since_ms
        return _CopierLoad(lag_bytes, lag_records, (now_ms - oldest_ms) / 1000, self._arrivals(copier_id, ends, at_s))

    def _load(self, at_s: float, sets: int) -> FlowLoad:
        parts = self._parts.values()
        lag_bytes, lag_records = sum(part.lag_bytes for part in parts), sum(part.lag_records for part in parts)
        records_per_s, bytes_per_s = self._metrics.rates()
        record_bytes = lag_bytes / lag_records if lag_records else bytes_per_s / max(1.0, records_per_s)
        return FlowLoad(
            at_s=at_s,
            copiers=min(
                len(self._flow_state.open_handles()), self._flow_state.copiers_wanted
            ),  # copiers beyond that are for suspects
            sets=sets,
            bytes_per_s=bytes_per_s,
            arrival_bytes_per_s=record_bytes * sum(part.arrivals_per_s for part in parts),
            lag_bytes=float(lag_bytes),
            lag_s=max((part.lag_s for part in parts), default=0.0),
        )

    def _arrivals(self, copier_id: str, ends: dict[TopicPartition, int], at_s: float) -> float:
        """Return the records per second that reached the source, from its ends: lag and rate together are too noisy."""
        known = self._ends.setdefault(copier_id, deque())
        known.append((at_s, ends))
        while len(known) > 2 and at_s - known[1][0] >= ARRIVAL_S:
            known.popleft()
        before_s, before = known[0]
        if at_s <= before_s:
            return 0.0
        return sum(end - before.get(name, end) for name, end in ends.items()) / (at_s - before_s)
