"""How many copiers a flow is to have: what was measured goes to `policies.scaling`, what it says becomes an event.

Until the flow is known (its sets, who holds them) the number stays what it is.
"""

from collections import deque
from collections.abc import Callable

from actors.desk import FlowDesk
from actors.events import Scaled
from actors.tally import Tally
from engine.core.events import Event
from policies.model import TopicPartition
from policies.scaling import FlowLoad, ScalingLimits, ScalingMemory, decide

LOOK_S = 5.0
"""Between two looks: the policy smooths over several times as long."""
ARRIVAL_S = 10.0
"""Arrivals are counted over so long at least."""
NOT_MOVABLE = ("failed", "stopped")
"""States of lanes whose lag no copier could drain."""


class Scaler:
    """The scaling of one flow."""

    def __init__(self, desk: FlowDesk, tally: Tally, limits: ScalingLimits, note: Callable[[Event], None]) -> None:
        self._desk, self._tally, self._limits, self._note = desk, tally, limits, note
        self._memory = ScalingMemory(wanted=desk.copiers_wanted)
        self._said = ""
        self._at_s = -LOOK_S
        self._ends: deque[tuple[float, dict[TopicPartition, int]]] = deque()

    def look(self, at_s: float, now_ms: int) -> None:
        """Measure if it is time, and set how many copiers are wanted. `at_s` is monotonic, `now_ms` Unix time."""
        desk = self._desk
        if self._limits.minimum == self._limits.maximum or at_s - self._at_s < LOOK_S:
            return
        self._at_s = at_s
        sets = sum(1 for group in desk.ledger.sets.values() if group.lanes)
        if not desk.ledger.owner or not sets:
            return
        load = self._measure(at_s, now_ms, sets)
        self._memory, decision = decide(self._memory, load, self._limits)
        desk.copiers_wanted = decision.copiers
        if decision.reason != self._said:
            self._said = decision.reason
            if decision.reason:
                self._note(Scaled(flow=desk.flow, copiers=decision.copiers, reason=decision.reason))

    def _measure(self, at_s: float, now_ms: int, sets: int) -> FlowLoad:
        """Sum the flow up in one pass: it may have ten thousand lanes."""
        desk = self._desk
        quarantined, paused = desk.quarantined(), desk.wanted.paused_topics
        lag_bytes = lag_records = 0
        oldest_ms, ends = now_ms, {}
        for lane in desk.lanes():
            if lane.state in NOT_MOVABLE or lane.lane.topic in paused or lane.set_id in quarantined:
                continue  # more copiers would not bring it on
            if lane.source_end < 0 or lane.source_next < 0:
                continue
            ends[lane.lane] = lane.source_end
            if lane.source_end > lane.source_next:
                lag_records += lane.source_end - lane.source_next
                lag_bytes += max(0, lane.lag_bytes)
                if 0 <= lane.behind_since_ms < oldest_ms:
                    oldest_ms = lane.behind_since_ms
        records_per_s, bytes_per_s = self._tally.rates()
        record_bytes = lag_bytes / lag_records if lag_records else bytes_per_s / max(1.0, records_per_s)
        return FlowLoad(
            at_s=at_s,
            copiers=min(len(desk.open_seats()), desk.copiers_wanted),  # those beyond are for suspects
            sets=sets,
            bytes_per_s=bytes_per_s,
            arrival_bytes_per_s=record_bytes * self._arrivals(ends, at_s),
            lag_bytes=float(lag_bytes),
            lag_s=(now_ms - oldest_ms) / 1000,
        )

    def _arrivals(self, ends: dict[TopicPartition, int], at_s: float) -> float:
        """Records per second that arrived at the source, from its ends: lag and rate together are too noisy."""
        self._ends.append((at_s, ends))
        while len(self._ends) > 2 and at_s - self._ends[1][0] >= ARRIVAL_S:
            self._ends.popleft()
        before_s, before = self._ends[0]
        if at_s <= before_s:
            return 0.0
        return sum(end - before.get(name, end) for name, end in ends.items()) / (at_s - before_s)
