"""Counts the work of a flow since the supervisor began, while copiers come and go and hand partitions over.

A copier's counters never fall, even when a partition leaves it. So a flow's counters are the sum over its living and
its ended copiers, minus what a copier had counted when this supervisor adopted it. A scraper sees either the old sum
continue, or a sum that begins at zero, and never counts a record twice.

A copier sums up its own lanes, so a flow's sums cost a few numbers per copier. Sums by topic cost a pass over all
lanes.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from engine.core.reports.latency import Histogram
from engine.core.reports.progress import FlowProgress, TopicCount


class Counts(NamedTuple):
    """The plain counters of a copier, or of a flow."""

    records: int = 0
    wire_bytes: int = 0
    append_failures: int = 0
    merged_batches: int = 0
    merged_from: int = 0
    left_out: int = 0
    range_vain_bytes: int = 0

    @staticmethod
    def of(progress: FlowProgress) -> "Counts":
        return Counts(
            progress.records,
            progress.wire_bytes,
            progress.append_failures,
            progress.merged_batches,
            progress.merged_from,
            progress.left_out,
            progress.range_vain_bytes,
        )

    def plus(self, other: "Counts") -> "Counts":
        return Counts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def minus(self, earlier: "Counts") -> "Counts":
        return Counts(*(now - then for now, then in zip(self, earlier, strict=True)))


class Latencies(NamedTuple):
    """The histograms of a copier, or of a flow."""

    append: Histogram = Histogram()
    replication: Histogram = Histogram()
    record_age: Histogram = Histogram()
    loop_stall: Histogram = Histogram()

    @staticmethod
    def of(progress: FlowProgress) -> "Latencies":
        return Latencies(
            progress.append_latency, progress.replication_latency, progress.record_age, progress.loop_stall
        )

    def plus(self, other: "Latencies") -> "Latencies":
        return Latencies(*(mine.plus(theirs) for mine, theirs in zip(self, other, strict=True)))

    def minus(self, earlier: "Latencies") -> "Latencies":
        return Latencies(*(now.minus(then) for now, then in zip(self, earlier, strict=True)))


class TopicCounters:
    """Counters by source topic."""

    def __init__(self, known: Mapping[str, TopicCount] | None = None) -> None:
        self.topics = dict(known or {})

    def add(self, progress: FlowProgress) -> None:
        for one in progress.left:
            self._add(one.topic, one.records, one.wire_bytes, one.latency_ms)
        for lane in progress.lanes:
            self._add(lane.lane.topic, lane.records, lane.wire_bytes, lane.latency_ms)

    def subtract(self, before: "TopicCounters") -> None:
        """Subtract what a copier had counted before this supervisor adopted it."""
        for one in before.topics.values():
            self._add(one.topic, -one.records, -one.wire_bytes, -one.latency_ms)

    def _add(self, topic: str, records: int, wire_bytes: int, latency_ms: int) -> None:
        known = self.topics.get(topic)
        if known is None:
            known = TopicCount(topic=topic, records=0, wire_bytes=0, latency_ms=0)
        self.topics[topic] = known.plus(records, wire_bytes, latency_ms)


class _Before:
    """The counters of a copier at its adoption by this supervisor; by topic only on demand."""

    def __init__(self, progress: FlowProgress) -> None:
        self.counts, self.latencies = Counts.of(progress), Latencies.of(progress)
        self._progress = progress

    @cached_property
    def topics(self) -> TopicCounters:
        """Sum up by topic: a pass over the lanes that it had then."""
        topics = TopicCounters()
        topics.add(self._progress)
        return topics


class FlowCounters:
    """The counters of one flow, from living and ended copiers. `living`: the last progress of each living copier."""

    def __init__(self) -> None:
        self._before: dict[str, _Before] = {}
        self._counts = Counts()
        self._latencies = Latencies()
        self._topics = TopicCounters()

    def adopt(self, copier_id: str, progress: FlowProgress) -> None:
        """Adopt a copier of an earlier supervisor: leave out what it counted until now. A second call does nothing."""
        if copier_id not in self._before:
            self._before[copier_id] = _Before(progress)

    def bury(self, copier_id: str, progress: FlowProgress) -> None:
        """Keep the counts of an ended copier."""
        last = {copier_id: progress}
        self._counts, self._latencies = self.counts(last), self.latencies(last)
        self._topics = TopicCounters(self.topics(last))
        self._before.pop(copier_id, None)

    def counts(self, living: Mapping[str, FlowProgress]) -> Counts:
        total = self._counts
        for progress, before in self._ours(living):
            total = total.plus(Counts.of(progress))
            total = total.minus(before.counts) if before is not None else total
        return total

    def latencies(self, living: Mapping[str, FlowProgress]) -> Latencies:
        total = self._latencies
        for progress, before in self._ours(living):
            total = total.plus(Latencies.of(progress))
            total = total.minus(before.latencies) if before is not None else total
        return total

    def topics(self, living: Mapping[str, FlowProgress]) -> dict[str, TopicCount]:
        """Sum up by topic: one pass over all lanes."""
        total = TopicCounters(self._topics.topics)
        for progress, before in self._ours(living):
            total.add(progress)
            if before is not None:
                total.subtract(before.topics)
        return total.topics

    def _ours(self, living: Mapping[str, FlowProgress]) -> Iterator[tuple[FlowProgress, _Before | None]]:
        for copier_id, progress in living.items():
            yield progress, self._before.get(copier_id)
