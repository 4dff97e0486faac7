"""Keeps the lag, throughput and latency of each flow for 15 minutes, a value every 5 s, in bounded memory.

    ring = SeriesRing()
    ring.note(status)          # any status; one that comes too early is left out
    ring.columns("A->B")

It is filled with statuses that somebody has asked for anyhow, so it asks no copier. Quantiles are of what was measured
between two points; the histograms of a status only grow.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, TypeVar

from actors.api.entities import FlowSeries, LatencySummary, RpoWorst, SeriesPoint
from actors.model.status import FlowStatus, MirrorStatus
from engine.core.reports.latency import Histogram
from engine.core.reports.quantiles import quantile

EVERY_MS: Final = 5000
LASTS_MS: Final = 15 * 60 * 1000
_EARLY_MS: Final = 500
"""How much sooner than EVERY_MS a status may come: they are asked for once a second, not to the millisecond."""
_POINTS: Final = LASTS_MS // EVERY_MS
_RECENT: Final = 12
"""How many intervals a summary of the latency covers: a minute."""


_Number = TypeVar("_Number", int, float)


class _FlowRing:
    """The points of one flow, and the histograms of the last minute."""

    def __init__(self) -> None:
        self.points: deque[SeriesPoint] = deque(maxlen=_POINTS)
        self.latencies: deque[tuple[Histogram, Histogram]] = deque(maxlen=_RECENT + 1)

    def note(self, flow: FlowStatus, at_ms: int) -> SeriesPoint:
        before = self.latencies[-1] if self.latencies else (Histogram(), Histogram())
        self.latencies.append((flow.append_latency, flow.replication_latency))
        first = not self.points
        append, copied = (
            LatencySummary() if first else quantiles(now, then)
            for now, then in zip(self.latencies[-1], before, strict=True)
        )
        point = SeriesPoint(
            flow=flow.flow,
            at_ms=at_ms,
            lag_records=None if flow.is_undiscovered else flow.lag_records,
            lag_bytes=None if flow.is_undiscovered else flow.lag_bytes,
            lag_seconds=flow.least_lag_ms(at_ms) / 1000 if flow.is_lag_known and not flow.is_undiscovered else None,
            records_per_second=flow.records_per_s,
            bytes_per_second=flow.bytes_per_s,
            append_p50_ms=append.p50_ms,
            append_p99_ms=append.p99_ms,
            copied_p50_ms=copied.p50_ms,
            copied_p99_ms=copied.p99_ms,
        )
        self.points.append(point)
        return point


def quantiles(now: Histogram, then: Histogram) -> LatencySummary:
    """Return the quantiles of what was measured between two snapshots; of all if the earlier one is no part of it."""
    between = now.minus(then)
    counts = now.counts if min(between.counts) < 0 else between.counts
    return LatencySummary(p50_ms=quantile(counts, 0.5), p99_ms=quantile(counts, 0.99))


class SeriesRing:
    """The series of all flows of a mirror."""

    def __init__(self) -> None:
        self._flows: dict[str, _FlowRing] = {}
        self._at_ms: int | None = None

    def is_due(self, at_ms: int) -> bool:
        """Whether a status of this time (Unix ms) becomes a point; a clock that was set back does not stop them."""
        return self._at_ms is None or not 0 <= at_ms - self._at_ms < EVERY_MS - _EARLY_MS

    def note(self, status: MirrorStatus) -> tuple[SeriesPoint, ...]:
        """Take a status, if one is due; return the new points. Flows that the mirror no longer has are forgotten."""
        if not self.is_due(status.at_ms):
            return ()
        self._at_ms = status.at_ms
        self._flows = {flow.flow: self._flows.get(flow.flow) or _FlowRing() for flow in status.flows}
        return tuple(self._flows[flow.flow].note(flow, status.at_ms) for flow in status.flows)

    def columns(self, flow: str, since_ms: int = 0) -> FlowSeries:
        """Return the points of a flow since an instant (Unix ms); none if it is not known."""
        points = [point for point in self._points(flow) if point.at_ms >= since_ms]
        return FlowSeries(
            flow=flow,
            every_seconds=EVERY_MS / 1000,
            at_ms=tuple(point.at_ms for point in points),
            lag_records=tuple(point.lag_records for point in points),
            lag_bytes=tuple(point.lag_bytes for point in points),
            lag_seconds=tuple(point.lag_seconds for point in points),
            records_per_second=tuple(point.records_per_second for point in points),
            bytes_per_second=tuple(point.bytes_per_second for point in points),
            append_p50_ms=tuple(point.append_p50_ms for point in points),
            append_p99_ms=tuple(point.append_p99_ms for point in points),
            copied_p50_ms=tuple(point.copied_p50_ms for point in points),
            copied_p99_ms=tuple(point.copied_p99_ms for point in points),
        )

    def last(self, flow: str) -> SeriesPoint | None:
        """Return the newest point of a flow."""
        return next(reversed(self._points(flow)), None)

    def after(self, flow: str, at_ms: int) -> list[SeriesPoint]:
        """Return the points of a flow after an instant (Unix ms)."""
        return [point for point in self._points(flow) if point.at_ms > at_ms]

    def worst(self, flows: Iterable[str], at_ms: int) -> RpoWorst:
        """Return the highest lags of some flows; `at_ms`: now, the answer's `since_ms` if there is no point."""
        points = [point for flow in flows for point in self._points(flow)]
        return RpoWorst(
            since_ms=min((point.at_ms for point in points), default=at_ms),
            records=_highest(point.lag_records for point in points),
            bytes=_highest(point.lag_bytes for point in points),
            seconds=_highest(point.lag_seconds for point in points),
        )

    def recent(self, flow: str) -> tuple[LatencySummary, LatencySummary]:
        """Return the quantiles of the last minute: of produce requests, and of copied records."""
        ring = self._flows.get(flow)
        if ring is None or len(ring.latencies) < 2:
            return LatencySummary(), LatencySummary()
        (append_then, copied_then), (append, copied) = ring.latencies[0], ring.latencies[-1]
        return quantiles(append, append_then), quantiles(copied, copied_then)

    def _points(self, flow: str) -> deque[SeriesPoint]:
        ring = self._flows.get(flow)
        return deque() if ring is None else ring.points


def _highest(values: Iterable[_Number | None]) -> _Number | None:
    return max((value for value in values if value is not None), default=None)
