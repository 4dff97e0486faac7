"""What a history of lag says about a stretch of time: points for plots and tables, breaches, stalls. Without Spark.

Windows are first summed up over the partitions of a topic, then over time into steps: lag and skew at their worst,
rates on average. So a day of ten thousand partitions becomes some hundred points a topic, an hour in memory at a time.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from engine.core.quantiles import quantile
from engine.jobs.history import History
from engine.jobs.rpo_spans import Breach, BreachFinder

STEPS_S = (30, 60, 120, 300, 600, 900, 1800, 3600)
"""Steps divide an hour, so that none lies in two of them."""
_MOST_POINTS = 300
_LATENCIES = ("append_ms", "copied_ms", "fetched_ms")
_COLUMNS = (
    *("window_end_ms", "lag_records", "lag_bytes", "lag_ms_max", "drain_s", "stalled_ms", "stall_reason"),
    *("records_per_s", "bytes_per_s", "records", "append_failures", "dropped"),
    *(f"{name}_counts" for name in _LATENCIES),
)
_WINDOW = ("flow", "topic", "window_start_ms")


class TopicPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A topic in one step of time: lag of all partitions together and of the worst in seconds, None where not known.

    `drain_s`: the longest of its partitions', where all that are behind shrink. `skew`: the busiest partition's share
    of the bytes, times partitions (1: even). `stalled`: partitions that stood still while they were behind.
    """

    flow: str
    topic: str
    at_ms: int
    partitions: int
    lag_records: int | None
    lag_bytes: int | None
    lag_seconds: float | None
    drain_s: float | None
    records_per_s: float
    bytes_per_s: float
    skew: float | None
    stalled: int


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Quantiles in ms; None where nothing was measured."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


class FlowPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A flow in one step of time: what its copiers counted, added up.

    `append`: per produce request; `copied`: per record, from its timestamp to its acknowledgement; `fetched`: to its
    arrival. `lag_seconds` is what a loss of the source would have cost (RPO). `dropped`: samples that are missing.
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
    """Partitions of a topic that stood still while they were behind, for one reason: how many, how long in all."""

    flow: str
    topic: str
    reason: str
    partitions: int
    seconds: float
    first_ms: int
    last_ms: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """All that is told of a stretch of time, oldest first; points are `step_s` apart."""

    since_ms: int
    until_ms: int
    step_s: int
    flows: tuple[FlowPoint, ...]
    topics: tuple[TopicPoint, ...]
    breaches: tuple[Breach, ...]
    stalls: tuple[Stall, ...]


def step_for(since_ms: int, until_ms: int) -> int:
    """Choose the seconds between two points so that they are not too many."""
    wanted = (until_ms - since_ms) / 1000 / _MOST_POINTS
    return next((step for step in STEPS_S if step >= wanted), STEPS_S[-1])


def summarize(
    histories: Iterable[History], since_ms: int, until_ms: int, *, rpo_s: Mapping[str, float] | None = None
) -> Summary:
    """Read histories; `rpo_s` are objectives in seconds by flow."""
    step_s = step_for(since_ms, until_ms)
    topics: list[dict[str, Any]] = []
    copiers: list[dict[str, Any]] = []
    stalls: _Stalls = defaultdict(lambda: [set(), 0, 2**63, 0])
    breaches = BreachFinder(rpo_s or {})
    for history in histories:
        for _, table in history.hours(since_ms, until_ms, _COLUMNS):
            is_lane = pc.not_equal(table.column("topic"), "")
            lanes = table.filter(is_lane)
            _note_stalls(lanes, stalls)
            per_window = _per_window(lanes)
            breaches.take(per_window)
            topics += _per_step(per_window, step_s * 1000).to_pylist()
            copiers += table.filter(pc.invert(is_lane)).to_pylist()
    points = tuple(_topic_point(row) for row in topics)
    return Summary(
        since_ms=since_ms,
        until_ms=until_ms,
        step_s=step_s,
        flows=tuple(_flow_points(copiers, points, step_s * 1000)),
        topics=points,
        breaches=breaches.found(),
        stalls=tuple(_stall(key, found) for key, found in sorted(stalls.items(), key=lambda one: -one[1][1])),
    )


def has_anything(summary: Summary) -> bool:
    """Whether the history holds anything of that time."""
    return bool(summary.flows or summary.topics)


# --- topics --------------------------------------------------------------------------------------------------


def _per_window(lanes: pa.Table) -> pa.Table:
    """Sum up over partitions: one row per topic and window."""
    shrinks = pc.or_kleene(pc.is_valid(lanes.column("drain_s")), pc.equal(lanes.column("lag_records"), 0))
    lanes = lanes.append_column("stuck", pc.cast(pc.invert(pc.fill_null(shrinks, False)), pa.int64()))
    lanes = lanes.append_column("still", pc.cast(pc.greater(lanes.column("stalled_ms"), 0), pa.int64()))
    summed = lanes.group_by(list(_WINDOW)).aggregate(
        [
            *(("partition", "count"), ("window_end_ms", "max")),
            *(("lag_records", "sum"), ("lag_bytes", "sum"), ("lag_ms_max", "max")),
            *(("drain_s", "max"), ("stuck", "sum"), ("still", "sum")),
            *(("records_per_s", "sum"), ("bytes_per_s", "sum"), ("bytes_per_s", "max")),
        ]
    )
    even = pc.divide(summed.column("bytes_per_s_sum"), summed.column("partition_count"))
    busy = pc.greater(summed.column("bytes_per_s_sum"), 0.0)
    skew = pc.if_else(busy, pc.divide(summed.column("bytes_per_s_max"), even), None)
    drains = pc.if_else(pc.equal(summed.column("stuck_sum"), 0), summed.column("drain_s_max"), None)
    return summed.append_column("skew", skew).append_column("drains", drains)


def _per_step(windows: pa.Table, step_ms: int) -> pa.Table:
    start = windows.column("window_start_ms")
    at = pc.multiply(pc.floor(pc.divide(pc.cast(start, pa.float64()), float(step_ms))), float(step_ms))
    stepped = windows.append_column("at_ms", pc.cast(at, pa.int64()))
    rows = stepped.group_by(["flow", "topic", "at_ms"]).aggregate(
        [
            *((f"{name}_sum", "max") for name in ("lag_records", "lag_bytes", "still")),
            *(("partition_count", "max"), ("lag_ms_max_max", "max"), ("drains", "max"), ("skew", "max")),
            *((f"{name}_sum", "mean") for name in ("records_per_s", "bytes_per_s")),
        ]
    )
    return rows.sort_by([("flow", "ascending"), ("topic", "ascending"), ("at_ms", "ascending")])


def _topic_point(row: Mapping[str, Any]) -> TopicPoint:
    lag_ms = row["lag_ms_max_max_max"]
    return TopicPoint(
        flow=row["flow"],
        topic=row["topic"],
        at_ms=row["at_ms"],
        partitions=row["partition_count_max"],
        lag_records=row["lag_records_sum_max"],
        lag_bytes=row["lag_bytes_sum_max"],
        lag_seconds=None if lag_ms is None else lag_ms / 1000,
        drain_s=row["drains_max"],
        records_per_s=row["records_per_s_sum_mean"] or 0.0,
        bytes_per_s=row["bytes_per_s_sum_mean"] or 0.0,
        skew=row["skew_max"],
        stalled=row["still_sum_max"],
    )


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


def _flow_points(
    copiers: Iterable[Mapping[str, Any]], topics: Iterable[TopicPoint], step_ms: int
) -> Iterable[FlowPoint]:
    steps: defaultdict[tuple[str, int], list[Mapping[str, Any]]] = defaultdict(list)
    lags: defaultdict[tuple[str, int], list[TopicPoint]] = defaultdict(list)
    for row in copiers:
        steps[row["flow"], row["window_start_ms"] // step_ms * step_ms].append(row)
    for point in topics:
        lags[point.flow, point.at_ms].append(point)
    for key in sorted(steps.keys() | lags.keys()):
        yield _flow_point(key, steps.get(key, []), lags.get(key, []))


def _flow_point(key: tuple[str, int], rows: list[Mapping[str, Any]], lags: list[TopicPoint]) -> FlowPoint:
    windows = len({row["window_start_ms"] for row in rows}) or 1
    by_copier: defaultdict[str, float] = defaultdict(float)
    for row in rows:
        by_copier[row["copier_key"]] += (row["bytes_per_s"] or 0.0) / windows
    total = sum(by_copier.values())
    records = [point.lag_records for point in lags if point.lag_records is not None]
    seconds = [point.lag_seconds for point in lags if point.lag_seconds is not None]
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
        lag_records=sum(records) if records else None,
        lag_seconds=max(seconds) if seconds else None,
    )


def _latency(lists: Iterable[list[int] | None]) -> Latency:
    counted = [counts for counts in lists if counts]
    added = [sum(column) for column in zip(*counts, strict=True)] if (counts := counted) else []
    return Latency(p50=quantile(added, 0.5), p95=quantile(added, 0.95), p99=quantile(added, 0.99))
