"""Metrics of one copier: measured once per request or batch, never once per record."""

from collections.abc import Callable, Iterable, Sequence

from engine.base.clock import now_s, wall_ms
from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.core.reports.latency import LatencyHistogram
from engine.core.reports.progress import TopicCount

_APPENDED = OutcomeKind.APPENDED


class CopierMetrics:
    """Counters of one flow in one copier: they grow for as long as it lives.

    `now_ms` is the Unix time of the latest answer from any broker, so that a batch need not ask the clock.
    """

    def __init__(self, wall: Callable[[], int] = wall_ms, clock: Callable[[], float] = now_s) -> None:
        self.append_latency = LatencyHistogram()
        self.replication_latency = LatencyHistogram()
        self.record_age = LatencyHistogram()
        self.loop_stall = LatencyHistogram()
        self.append_failures = 0
        self.merged_batches = self.merged_from = 0
        """Merged batches that were acknowledged, and the source batches that they were made of."""
        self.left_out_records = 0
        """Records that the target refused and that were left out."""
        self.vain_bytes = 0
        """Bytes that were fetched in vain by ranges."""
        self.now_ms = wall()
        self._wall, self._clock = wall, clock
        self._left: dict[str, TopicCount] = {}

    def sent(self) -> float:
        """Begin to measure a produce request; return the `sent_s` that `answered` needs."""
        return self._clock()

    def answered(self, sent_s: float, outcomes: Sequence[Outcome]) -> None:
        """Count the outcomes of a produce request, before the lanes get them."""
        self.now_ms = self._wall()
        appended = sum(1 for outcome in outcomes if outcome.kind is _APPENDED)
        self.append_failures += len(outcomes) - appended
        if appended:
            self.append_latency.add((self._clock() - sent_s) * 1000)

    def fetch_answered(self) -> int:
        """Note that a fetch was answered, before its records are taken in; return the Unix time in ms."""
        self.now_ms = self._wall()
        return self.now_ms

    def fetched(self, newest_ms: int, records: int) -> None:
        """Count records of one partition that arrived; the newest was written at `newest_ms` (-1: no timestamp)."""
        if records and newest_ms >= 0:
            self.record_age.add(self.now_ms - newest_ms, records)

    def in_vain(self, size: int) -> None:
        """Count bytes that a range has fetched in vain: another range has them too, or they were not whole."""
        self.vain_bytes += size

    def copied(self, newest_ms: int, records: int) -> int:
        """Count an acknowledged batch; return the milliseconds since its newest timestamp, times its records."""
        if newest_ms < 0:
            return 0
        latency_ms = max(0, self.now_ms - newest_ms)
        self.replication_latency.add(latency_ms, records)
        return latency_ms * records

    def merged(self, batches: int) -> None:
        """Count an acknowledged batch; `batches`: the source batches that it was made of, 0 if it is not merged."""
        if batches:
            self.merged_batches += 1
            self.merged_from += batches

    def left_out(self, records: int) -> None:
        """Count refused records that were left out of the copy."""
        self.left_out_records += records

    def leave(self, topic: str, records: int, wire_bytes: int, latency_ms: int) -> None:
        """Keep the counts of a lane that leaves this copier."""
        known = self._left.get(topic) or TopicCount(topic=topic, records=0, wire_bytes=0, latency_ms=0)
        self._left[topic] = known.plus(records, wire_bytes, latency_ms)

    @property
    def left(self) -> Iterable[TopicCount]:
        """The counts of lanes that have left, by topic."""
        return self._left.values()
