"""What each lane and set of a flow weighs, from what copiers report: rate and lag, steadied against noise."""

from collections.abc import Iterable, Mapping

from engine.core.progress import LaneProgress
from policies.assignment import IDLE_LANE, set_weight, steady_weights
from policies.model import PartitionSet, TopicPartition

WEIGH_S = 10.0
"""Between two weighings: a rate over less is a gauge, not a weight."""
SMOOTH = 0.25
"""The part of a new rate that counts: a change shows within a minute."""


class Weights:
    """The scales of one flow."""

    def __init__(self) -> None:
        self.sets: dict[str, float] = {}
        self.lanes: dict[TopicPartition, float] = {}
        self._bytes: dict[TopicPartition, int] = {}
        self._rates: dict[TopicPartition, float] = {}
        self._at_s: float | None = None

    def weigh(self, lanes: Iterable[LaneProgress], sets: Mapping[str, PartitionSet], at_s: float) -> bool:
        """Weigh again if it is time (monotonic seconds); say whether that was done."""
        if self._at_s is not None and at_s - self._at_s < WEIGH_S:
            return False
        span_s = at_s - self._at_s if self._at_s is not None else 0.0
        self._at_s = at_s
        reported = {lane.lane: lane for lane in lanes}
        self.lanes = {
            name: set_weight(self._rate(name, lane.wire_bytes, span_s), lane.lag_bytes, 1)
            for name, lane in reported.items()
        }
        self._bytes = {name: lane.wire_bytes for name, lane in reported.items()}
        self._rates = {name: rate for name, rate in self._rates.items() if name in reported}
        measured = {
            set_id: sum(self.lanes.get(lane.source, IDLE_LANE) for lane in group.lanes)
            for set_id, group in sets.items()
        }
        self.sets = steady_weights(self.sets, measured)
        return True

    def of(self, set_id: str, lanes: int) -> float:
        """Give the weight of a set; one that was never weighed weighs as if idle."""
        return self.sets.get(set_id, IDLE_LANE * lanes)

    def _rate(self, name: TopicPartition, now_bytes: int, span_s: float) -> float:
        """Give bytes per second, smoothed: a lane that stood still for a moment catches up in the next."""
        before, known = self._bytes.get(name), self._rates.get(name)
        if before is None or span_s <= 0 or now_bytes < before:  # a lane that has changed hands counts from 0 again
            return known or 0.0
        rate = (now_bytes - before) / span_s
        self._rates[name] = rate if known is None else known + SMOOTH * (rate - known)
        return self._rates[name]
