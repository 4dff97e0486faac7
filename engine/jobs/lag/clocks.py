"""Notices clocks that are apart, and samples that come too late for the lag history because of it.

A window's time depends on the record alone (`samples.decode`): a query that begins anew must place each sample in the
same window again. So a broker whose clock is ahead moves the watermark ahead, and when another broker leads the topic,
its samples are late until its clock gets there. Nothing here changes that; it is said.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from engine.core.events.event_base import Event
from engine.core.events.progress_events import LagClocksDiffer, LagSamplesLate
from engine.core.reports.progress_sample import progress_topic
from engine.jobs.lag.options import LagOptions

OBSERVED = "clocks"
"""The name of the metrics that `observed` adds to each batch of a query."""
AGAIN_S = 600.0
"""Seconds between two events of one kind, while it lasts."""


class BatchClocks(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch saw: `off`: samples whose time differs from the broker's by more than the tolerance, the furthest by
    `apart_ms`. `newest_ms`: the broker's time of its newest sample, 0 without samples; `began_ms`: the time of the
    Spark host at its beginning. `late`: rows that were left out.
    """

    off: int = 0
    apart_ms: int = 0
    newest_ms: int = 0
    began_ms: int = 0
    late: int = 0


def observed(told_ms: Column, appended_ms: Column, tolerance_ms: float) -> tuple[Column, ...]:
    """Return what to observe of a batch of samples, by their own time and by that of the broker (Unix ms)."""
    apart = f.abs(told_ms - appended_ms)
    return (
        f.count(f.when(apart > tolerance_ms, 1)).alias("off"),
        f.max(apart).alias("apart_ms"),
        f.max(appended_ms).alias("newest_ms"),
    )


def batch_clocks(progress: Mapping[str, Any]) -> BatchClocks:
    """Read Spark's report of a batch, as JSON has it."""
    known = {name: value for name, value in progress.get("observedMetrics", {}).get(OBSERVED, {}).items() if value}
    began = datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00"))
    late = sum(one["numRowsDroppedByWatermark"] for one in progress["stateOperators"])
    return BatchClocks(**known, began_ms=round(began.timestamp() * 1000), late=late)


class ClockJudge:
    """Decides what is told of one flow's clocks: each kind at once, then every ten minutes while it lasts."""

    def __init__(self, options: LagOptions) -> None:
        self._flow, self._tolerance_s = options.flow, options.watermark_s
        self._topic = progress_topic(options.flow.source)
        self._told_s: dict[str, float] = {}
        self._late = 0

    def judge(self, batches: Iterable[BatchClocks], now_s: float) -> Iterator[Event]:
        """Take batches; yield events. `now_s`: of a clock that does not jump."""
        for one in batches:
            ahead_s = (one.newest_ms - one.began_ms) / 1000
            is_ahead = ahead_s > self._tolerance_s
            if (is_ahead or one.off) and self._is_due("apart", now_s):
                yield LagClocksDiffer(
                    flow=self._flow,
                    topic=self._topic,
                    seconds=ahead_s if is_ahead else one.apart_ms / 1000,
                    broker_ahead=is_ahead,
                )
            self._late += one.late
            if one.late and self._is_due("late", now_s):
                yield LagSamplesLate(flow=self._flow, topic=self._topic, rows=self._late, seconds=self._tolerance_s)
                self._late = 0

    def _is_due(self, kind: str, now_s: float) -> bool:
        if kind in self._told_s and now_s - self._told_s[kind] < AGAIN_S:
            return False
        self._told_s[kind] = now_s
        return True


class ClockWatch:
    """Follows the reports of a running query."""

    def __init__(self, options: LagOptions) -> None:
        self._judge = ClockJudge(options)
        self._seen = ""

    def look(self, query: StreamingQuery, now_s: float) -> Iterator[Event]:
        """Yield the events of the batches since the last look."""
        newest = query.lastProgress
        if newest is None or newest["timestamp"] <= self._seen:
            return
        found = [one for one in query.recentProgress if one["timestamp"] > self._seen]
        self._seen = newest["timestamp"]
        yield from self._judge.judge([batch_clocks(one) for one in found], now_s)
