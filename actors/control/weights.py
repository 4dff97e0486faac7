"""Weighs each lane and set of a flow by the rate and lag that copiers report, smoothed against noise.

A flow may have ten thousand lanes, and a step of the supervisor has little time. So each step weighs only the copiers
whose turn it is. Every copier is weighed every `WEIGH_S` seconds, over a span of its own.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from engine.core.reports.progress import FlowProgress, LaneProgress
from policies.model import PartitionSet, TopicPartition
from policies.placement.assignment import IDLE_LANE, set_weight, steady_weights

WEIGH_S = 10.0
"""Seconds between two weighings of a copier: a rate over a shorter span is a momentary value, not a weight."""
STEP_S = 1.0
"""Most seconds between two steps: this decides how many copiers one step weighs."""
SMOOTH = 0.25
"""Share of a new rate in the smoothed one: a change shows within a minute."""


class Weights:
    """The weights of one flow. A lane or set that no copier reports for a while keeps its weight."""

    def __init__(self) -> None:
        self.sets: dict[str, float] = {}
        """Weights of sets, smoothed: placement uses these."""
        self.measured: dict[str, float] = {}
        """Weights of sets, as last measured."""
        self.lanes: dict[TopicPartition, float] = {}
        self._seen: dict[TopicPartition, tuple[str, int]] = {}
        self._rates: dict[TopicPartition, float] = {}
        self._at_s: dict[str, float] = {}
        self._round: set[str] = set()

    def weigh(
        self,
        reported: Mapping[str, FlowProgress],
        sets: Mapping[str, PartitionSet],
        owner: Mapping[str, str],
        at_s: float,
    ) -> bool:
        """Weigh the copiers whose turn it is; `at_s` is monotonic.

        Returns True when every copier has been weighed since it last returned True.
        """
        turn = self._due(reported, at_s)
        if not turn:
            return False
        for copier_id in turn:
            self._weigh_copier(copier_id, reported[copier_id].lanes, at_s)
        self._round.update(turn)
        self._sum_up({set_id: group for set_id, group in sets.items() if owner.get(set_id) in turn})
        if not reported.keys() <= self._round:
            return False
        self._round.clear()
        self._forget(reported, sets)
        return True

    def of(self, set_id: str, lanes: int) -> float:
        """Return the weight of a set; one that was never weighed weighs as if idle."""
        return self.sets.get(set_id, IDLE_LANE * lanes)

    def _due(self, reported: Mapping[str, FlowProgress], at_s: float) -> Sequence[str]:
        last = self._at_s
        due = sorted(
            (last.get(copier_id, -math.inf), copier_id)
            for copier_id in reported
            if at_s - last.get(copier_id, -math.inf) >= WEIGH_S
        )
        return [copier_id for _, copier_id in due[: math.ceil(len(reported) * STEP_S / WEIGH_S)]]

    def _weigh_copier(self, copier_id: str, lanes: Iterable[LaneProgress], at_s: float) -> None:
        span_s = at_s - self._at_s.get(copier_id, at_s)
        self._at_s[copier_id] = at_s
        for lane in lanes:
            rate = self._rate(lane.lane, copier_id, lane.wire_bytes, span_s)
            self.lanes[lane.lane] = set_weight(rate, lane.lag_bytes, 1)

    def _rate(self, name: TopicPartition, copier_id: str, now_bytes: int, span_s: float) -> float:
        """Return bytes per second, smoothed: a lane that waits for a moment catches up in the next."""
        before, known = self._seen.get(name), self._rates.get(name)
        self._seen[name] = copier_id, now_bytes
        if before is None or span_s <= 0 or before[0] != copier_id or now_bytes < before[1]:
            return known or 0.0  # a lane that has moved to another copier, or came back, counts from 0 again
        rate = (now_bytes - before[1]) / span_s
        self._rates[name] = rate if known is None else known + SMOOTH * (rate - known)
        return self._rates[name]

    def _sum_up(self, sets: Mapping[str, PartitionSet]) -> None:
        measured = {
            set_id: sum(self.lanes.get(lane.source, IDLE_LANE) for lane in group.lanes)
            for set_id, group in sets.items()
        }
        self.measured.update(measured)
        self.sets.update(steady_weights(self.sets, measured))

    def _forget(self, reported: Mapping[str, FlowProgress], sets: Mapping[str, PartitionSet]) -> None:
        """Drop copiers, sets and lanes that no longer exist."""
        self._at_s = {copier_id: at_s for copier_id, at_s in self._at_s.items() if copier_id in reported}
        for by_set in (self.sets, self.measured):
            for set_id in by_set.keys() - sets.keys():
                del by_set[set_id]
        if len(self.lanes) <= sum(len(group.lanes) for group in sets.values()):
            return
        present = {lane.source for group in sets.values() for lane in group.lanes}
        for name in self.lanes.keys() - present:
            del self.lanes[name]
            del self._seen[name]
            self._rates.pop(name, None)
