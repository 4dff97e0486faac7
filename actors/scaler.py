"""How many copiers a flow is to have: what was measured goes to `policies.scaling`, what it says becomes an event.

Until the flow is known (its sets, who holds them) the number stays what it is.
"""

from collections import deque
from collections.abc import Callable

from actors.desk import FlowDesk
from actors.events import Scaled
from actors.tally import Tally
from engine.core.events import Event
from engine.core.progress import LaneProgress
from policies.model import TopicPartition
from policies.scaling import FlowLoad, ScalingLimits, ScalingMemory, decide

LOOK_S = 2.0
"""Between two looks: the policy smooths over ten times as long."""
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
        if at_s - self._at_s < LOOK_S:
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
        lanes = [lane for lane in self._desk.lanes() if self._counts(lane)]
        lag_bytes = sum(max(0, lane.lag_bytes) for lane in lanes)
        lag_records = sum(lane.lag_records for lane in lanes)
        records_per_s, bytes_per_s = self._tally.rates()
        record_bytes = lag_bytes / lag_records if lag_records else bytes_per_s / max(1.0, records_per_s)
        return FlowLoad(
            at_s=at_s,
            copiers=min(len(self._desk.open_seats()), self._desk.copiers_wanted),  # those beyond are for suspects
            sets=sets,
            bytes_per_s=bytes_per_s,
            arrival_bytes_per_s=record_bytes * self._arrivals(lanes, at_s),
            lag_bytes=float(lag_bytes),
            lag_s=max((lane.lag_ms(now_ms) for lane in lanes), default=0) / 1000,
        )

    def _counts(self, lane: LaneProgress) -> bool:
        """Whether more copiers could bring the lane on."""
        desk = self._desk
        is_paused = lane.lane.topic in desk.wanted.paused_topics
        return lane.state not in NOT_MOVABLE and not is_paused and lane.set_id not in desk.quarantined()

    def _arrivals(self, lanes: list[LaneProgress], at_s: float) -> float:
        """Records per second that arrived at the source, from its ends: lag and rate together are too noisy."""
        self._ends.append((at_s, {lane.lane: lane.source_end for lane in lanes if lane.source_end >= 0}))
        while len(self._ends) > 2 and at_s - self._ends[1][0] >= ARRIVAL_S:
            self._ends.popleft()
        (before_s, before), (_, now) = self._ends[0], self._ends[-1]
        grown = sum(max(0, end - before[name]) for name, end in now.items() if name in before)
        return grown / (at_s - before_s) if at_s > before_s else 0.0
