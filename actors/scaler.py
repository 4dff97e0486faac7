"""How many copiers a flow is to have: what was measured goes to `policies.scaling`, what it says becomes an event.

Until the flow is known (its sets, who holds them) the number stays what it is.
"""

from collections.abc import Callable

from actors.desk import FlowDesk
from actors.events import Scaled
from actors.tally import Tally
from engine.core.events import Event
from policies.scaling import FlowLoad, ScalingLimits, ScalingMemory, decide

LOOK_S = 2.0
"""Between two looks: the policy smooths over ten times as long."""
NOT_MOVABLE = ("failed", "stopped")
"""States of lanes whose lag no copier could drain."""


class Scaler:
    """The scaling of one flow."""

    def __init__(self, desk: FlowDesk, tally: Tally, limits: ScalingLimits, note: Callable[[Event], None]) -> None:
        self._desk, self._tally, self._limits, self._note = desk, tally, limits, note
        self._memory = ScalingMemory(wanted=desk.copiers_wanted)
        self._said = ""
        self._before: tuple[float, int] | None = None

    def look(self, at_s: float, now_ms: int) -> None:
        """Measure if it is time, and set how many copiers are wanted. `at_s` is monotonic, `now_ms` Unix time."""
        desk = self._desk
        if self._before is not None and at_s - self._before[0] < LOOK_S:
            return
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
        paused = self._desk.wanted.paused_topics
        lanes = [lane for lane in self._desk.lanes() if lane.state not in NOT_MOVABLE and lane.lane.topic not in paused]
        lag_bytes = sum(max(0, lane.lag_bytes) for lane in lanes)
        _, rate = self._tally.rates()
        before, self._before = self._before, (at_s, lag_bytes)
        growth = (lag_bytes - before[1]) / (at_s - before[0]) if before is not None and at_s > before[0] else 0.0
        return FlowLoad(
            at_s=at_s,
            copiers=len(self._desk.open_seats()),
            sets=sets,
            bytes_per_s=rate,
            arrival_bytes_per_s=max(0.0, rate + growth),
            lag_bytes=float(lag_bytes),
            lag_s=max((lane.lag_ms(now_ms) for lane in lanes), default=0) / 1000,
        )
