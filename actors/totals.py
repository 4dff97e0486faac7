"""What a flow has counted since the supervisor began, over copiers that come, go and hand partitions on.

A copier's counters never fall, also when a partition leaves it. So a flow's are the sum over living copiers and those
that have ended, less what a copier had counted when this supervisor adopted it: who scrapes them sees either the old
sum going on, or one that begins at nothing, and never counts a record twice.
"""

from collections.abc import Mapping
from typing import NamedTuple

from engine.core.progress import FlowProgress, TopicCount
from engine.core.tally import Histogram


class Latencies(NamedTuple):
    """The histograms of a copier, or of a flow."""

    append: Histogram = Histogram()
    replication: Histogram = Histogram()
    record_age: Histogram = Histogram()


class Totals:
    """Counters that grow: by topic, of failed appends, of durations."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicCount] = {}
        self.append_failures = 0
        self.latencies = Latencies()

    def add(self, progress: FlowProgress) -> None:
        """Add what one copier has counted."""
        for one in progress.left:
            self._add_topic(one.topic, one.records, one.wire_bytes, one.latency_ms)
        for lane in progress.lanes:
            self._add_topic(lane.lane.topic, lane.records, lane.wire_bytes, lane.latency_ms)
        self.append_failures += progress.append_failures
        append, replication, record_age = self.latencies
        self.latencies = Latencies(
            append.plus(progress.append_latency),
            replication.plus(progress.replication_latency),
            record_age.plus(progress.record_age),
        )

    def take_off(self, before: "Totals") -> None:
        """Take off what was counted by a copier before it was ours."""
        for one in before.topics.values():
            self._add_topic(one.topic, -one.records, -one.wire_bytes, -one.latency_ms)
        self.append_failures -= before.append_failures
        self.latencies = Latencies(
            *(now.minus(then) for now, then in zip(self.latencies, before.latencies, strict=True))
        )

    def _add_topic(self, topic: str, records: int, wire_bytes: int, latency_ms: int) -> None:
        known = self.topics.get(topic)
        if known is None:
            known = TopicCount(topic=topic, records=0, wire_bytes=0, latency_ms=0)
        self.topics[topic] = known.plus(records, wire_bytes, latency_ms)


class FlowTotals:
    """The counters of one flow, from the copiers it has and had."""

    def __init__(self) -> None:
        self._before: dict[str, Totals] = {}
        self._kept = Totals()

    def adopt(self, copier_id: str, progress: FlowProgress) -> None:
        """Meet a copier that an earlier supervisor started: what it had counted then is not ours. Once is enough."""
        if copier_id not in self._before:
            self._before[copier_id] = Totals()
            self._before[copier_id].add(progress)

    def bury(self, copier_id: str, progress: FlowProgress) -> None:
        """A copier ended: keep what it counted."""
        self._kept.add(progress)
        if copier_id in self._before:
            self._kept.take_off(self._before.pop(copier_id))

    def now(self, living: Mapping[str, FlowProgress]) -> Totals:
        """Sum up, with the last progress of every living copier."""
        total = Totals()
        total.topics, total.append_failures = dict(self._kept.topics), self._kept.append_failures
        total.latencies = self._kept.latencies
        for copier_id, progress in living.items():
            total.add(progress)
            if copier_id in self._before:
                total.take_off(self._before[copier_id])
        return total
