"""Summarizes a history of lag over a stretch of time: points for plots and tables, breaches, stalls. Without Spark.

Windows are first combined over the partitions of a topic, then over time into steps: the worst lag and skew, average
rates. So a day of ten thousand partitions becomes some hundred points per topic; memory holds minutes at a time.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from engine.core.reports.quantiles import quantile
from engine.jobs.lag import topics as lag_topics
from engine.jobs.lag.history import History
from engine.jobs.lag.rpo_spans import Breach, BreachFinder
from engine.jobs.lag.topics import TopicPoint

STEPS_S = (30, 60, 120, 300, 600, 900, 1800, 3600)
"""Steps divide an hour, so that no step lies in two hours."""
_MOST_POINTS = 300
_LATENCIES = ("append_ms", "copied_ms", "fetched_ms")
_COLUMNS = (
    *("window_end_ms", "lag_records", "lag_bytes", "lag_ms_max", "drain_s", "stalled_ms", "stall_reason"),
    *("records_per_s", "bytes_per_s", "records", "append_failures", "dropped"),
    *(f"{name}_counts" for name in _LATENCIES),
)


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Quantiles in ms; None if nothing was measured."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


class FlowPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A flow in one step of time: the sum of what its copiers counted.

    `append`: per produce request; `copied`: per record, from its timestamp to its acknowledgement; `fetched`: per
    record, from its timestamp to its arrival. `lag_seconds` is what a loss of the source would have cost (RPO).
    `dropped`: samples that are missing.
    """

    flow: str
    at_ms: int
    copiers: int
    records_per_s: float
    bytes_per_s: float
    copier_skew: float | None
    append: Latency
    copied: Latency
    fetched: Latency
    append_failures: int
    dropped: int
    lag_records: int | None = None
    lag_seconds: float | None = None


class Stall(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions of a topic that were behind and made no progress, for one reason: how many, and seconds in all."""

    flow: str
    topic: str
    reason: str
    partitions: int
    seconds: float
    first_ms: int
    last_ms: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of a stretch of time, oldest first; points are `step_s` seconds apart.

    `topics` may hold only the topics that were furthest behind; `topic_numbers` says how many each flow had.
    """

    since_ms: int
    until_ms: int
    step_s: int
    flows: tuple[FlowPoint, ...]
    topics: tuple[TopicPoint, ...]
    topic_numbers: dict[str, int]
    breaches: tuple[Breach, ...]
    stalls: tuple[Stall, ...]


def step_for(since_ms: int, until_ms: int) -> int:
    """Choose the seconds between two points so that the number of points stays bounded."""
    wanted = (until_ms - since_ms) / 1000 / _MOST_POINTS
    return next((step for step in STEPS_S if step >= wanted), STEPS_S[-1])


def summarize(
    history: History | None,
    since_ms: int,
    until_ms: int,
    *,
    flow: str | None = None,
    rpo_s: Mapping[str, float] | None = None,
    most_topics: int | None = None,
) -> Summary:
    """Read a history (None: nothing was ever stored); `flow`: only this one; `rpo_s`: objectives in seconds by flow.

    `most_topics` limits the topics of each flow that have points, to those furthest behind: ten thousand topics would
    have millions of points.
    """
    step_s = step_for(since_ms, until_ms)
    found = _Found(step_s * 1000, BreachFinder(rpo_s or {}))
    for table in history.windows(since_ms, until_ms, _COLUMNS, flow) if history is not None else ():
        found.take(table)
    steps = found.steps()
    told = steps if steps is None or most_topics is None else lag_topics.furthest_behind(steps, most_topics)
    lags = {} if steps is None else dict(lag_topics.flow_lags(steps))
    return Summary(
        since_ms=since_ms,
        until_ms=until_ms,
        step_s=step_s,
        flows=tuple(_flow_points(found.copiers, lags, step_s * 1000)),
        topics=() if told is None else lag_topics.points(told),
        topic_numbers={} if steps is None else lag_topics.numbers(steps),
        breaches=found.breaches.found(),
        stalls=tuple(
            _stall(key, one) for key, one in sorted(found.stalls.items(), key=lambda one: (-one[1][1], one[0]))
        ),
    )


class _Found:
    """Collects results table by table; keeps only sums of each table."""

    def __init__(self, step_ms: int, breaches: BreachFinder) -> None:
        self.copiers: list[dict[str, Any]] = []
        self.stalls: _Stalls = defaultdict(lambda: [set(), 0, 2**63, 0])
        self.breaches = breaches
        self._step_ms = step_ms
        self._steps: list[pa.Table] = []

    def take(self, table: pa.Table) -> None:
        is_lane = pc.not_equal(table.column("topic"), "")
        self.copiers += table.filter(pc.invert(is_lane)).to_pylist()
        lanes = table.filter(is_lane)
        _note_stalls(lanes, self.stalls)
        per_window = lag_topics.per_window(lanes)
        self.breaches.take(per_window)
        self._steps = lag_topics.added(self._steps, lag_topics.per_step(per_window, self._step_ms))

    def steps(self) -> pa.Table | None:
        """Return one row per topic and step; None if no rows exist."""
        return lag_topics.averaged(pa.concat_tables(self._steps)) if self._steps else None


def has_anything(summary: Summary) -> bool:
    """Whether the history holds anything for that time."""
    return bool(summary.flows or summary.topics)


# --- stalls --------------------------------------------------------------------------------------------------

_Stalls = defaultdict[tuple[str, str, str], list[Any]]


def _note_stalls(lanes: pa.Table, stalls: _Stalls) -> None:
    still = lanes.filter(pc.greater(lanes.column("stalled_ms"), 0))
    wanted = ["flow", "topic", "partition", "stall_reason", "stalled_ms", "window_start_ms", "window_end_ms"]
    for row in still.select(wanted).to_pylist():
        found = stalls[row["flow"], row["topic"], row["stall_reason"]]
        found[0].add(row["partition"])
        found[1] += row["stalled_ms"]
        found[2] = min(found[2], row["window_start_ms"])
        found[3] = max(found[3], row["window_end_ms"])


def _stall(key: tuple[str, str, str], found: list[Any]) -> Stall:
    flow, topic, reason = key
    return Stall(
        flow=flow,
        topic=topic,
        reason=reason,
        partitions=len(found[0]),
        seconds=found[1] / 1000,
        first_ms=found[2],
        last_ms=found[3],
    )


# --- flows ---------------------------------------------------------------------------------------------------

_Lag = tuple[int | None, float | None]
"""Lag in records and in seconds."""


def _flow_points(
    copiers: Iterable[Mapping[str, Any]], lags: Mapping[tuple[str, int], _Lag], step_ms: int
) -> Iterable[FlowPoint]:
    steps: defaultdict[tuple[str, int], list[Mapping[str, Any]]] = defaultdict(list)
    for row in copiers:
        steps[row["flow"], row["window_start_ms"] // step_ms * step_ms].append(row)
    for key in sorted(steps.keys() | lags.keys()):
        yield _flow_point(key, steps.get(key, []), lags.get(key, (None, None)))


def _flow_point(key: tuple[str, int], rows: list[Mapping[str, Any]], lag: _Lag) -> FlowPoint:
    windows = len({row["window_start_ms"] for row in rows}) or 1
    by_copier: defaultdict[str, float] = defaultdict(float)
    for row in rows:
        by_copier[row["copier_key"]] += (row["bytes_per_s"] or 0.0) / windows
    total = sum(by_copier.values())
    return FlowPoint(
        flow=key[0],
        at_ms=key[1],
        copiers=len(by_copier),
        records_per_s=sum(row["records_per_s"] or 0.0 for row in rows) / windows,
        bytes_per_s=total,
        copier_skew=max(by_copier.values()) * len(by_copier) / total if total else None,
        append=_latency(row["append_ms_counts"] for row in rows),
        copied=_latency(row["copied_ms_counts"] for row in rows),
        fetched=_latency(row["fetched_ms_counts"] for row in rows),
        append_failures=sum(row["append_failures"] or 0 for row in rows),
        dropped=sum(
            max((row["dropped"] or 0 for row in rows if row["copier_key"] == one), default=0) for one in by_copier
        ),
        lag_records=lag[0],
        lag_seconds=lag[1],
    )


def _latency(lists: Iterable[list[int] | None]) -> Latency:
    counted = [counts for counts in lists if counts]
    added = [sum(column) for column in zip(*counts, strict=True)] if (counts := counted) else []
    return Latency(p50=quantile(added, 0.5), p95=quantile(added, 0.95), p99=quantile(added, 0.99))
