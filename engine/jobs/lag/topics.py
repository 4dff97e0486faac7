"""Sums up the history of lag by topic: over partitions, then over steps of time; finds the topics furthest behind."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

_WINDOW = ("flow", "topic", "window_start_ms")
_STEP = ("flow", "topic", "at_ms")
_LAG_MS, _LAG = "lag_ms_max_max_max", "lag_records_sum_max"
_WORST = (
    *("lag_records_sum", "lag_bytes_sum", "still_sum"),
    *("partition_count", "lag_ms_max_max", "drains", "skew"),
)
_RATES = ("records_per_s_sum", "bytes_per_s_sum")


class TopicPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A topic in one step of time: lag of all partitions together, and of the worst in seconds; None if unknown.

    `drain_s`: the longest of its partitions, if the lag of all that are behind shrinks. `skew`: the busiest partition's
    share of the bytes, times partitions (1: even). `stalled`: partitions that were behind and made no progress.
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


def per_window(lanes: pa.Table) -> pa.Table:
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


def per_step(windows: pa.Table, step_ms: int) -> pa.Table:
    """Sum up over time: one row per topic and step; the windows may be only a part of a step."""
    start = windows.column("window_start_ms")
    at = pc.multiply(pc.floor(pc.divide(pc.cast(start, pa.float64()), float(step_ms))), float(step_ms))
    stepped = windows.append_column("at_ms", pc.cast(at, pa.int64()))
    return stepped.group_by(list(_STEP)).aggregate(
        [*((name, "max") for name in _WORST), *((name, how) for name in _RATES for how in ("sum", "count"))]
    )


def added(before: list[pa.Table], rows: pa.Table) -> list[pa.Table]:
    """Append rows of steps to the previous tables; rows of the same step are combined with the last table."""
    if not before or not set(_steps(before[-1])) & set(_steps(rows)):
        return [*before, rows]
    both = pa.concat_tables([before[-1], rows])
    summed = [f"{name}_{how}" for name in _RATES for how in ("sum", "count")]
    told = [*(f"{name}_max" for name in _WORST), *summed]
    as_one = both.group_by(list(_STEP)).aggregate(
        [*((f"{name}_max", "max") for name in _WORST), *((name, "sum") for name in summed)]
    )
    return [*before[:-1], as_one.rename_columns([*_STEP, *told])]


def _steps(rows: pa.Table) -> list[int]:
    found: list[int] = pc.unique(rows.column("at_ms")).to_pylist()
    return found


def averaged(steps: pa.Table) -> pa.Table:
    """Turn rates into means over the windows of their step, and sort the rows by topic and time."""
    for name in _RATES:
        mean = pc.divide(steps.column(f"{name}_sum"), pc.cast(steps.column(f"{name}_count"), pa.float64()))
        steps = steps.append_column(f"{name}_mean", mean).drop_columns([f"{name}_sum", f"{name}_count"])
    return steps.sort_by([(name, "ascending") for name in _STEP])


def _point(row: Mapping[str, Any]) -> TopicPoint:
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


def points(steps: pa.Table) -> tuple[TopicPoint, ...]:
    """Return the points of a table of steps."""
    return tuple(_point(row) for row in steps.to_pylist())


def numbers(steps: pa.Table) -> dict[str, int]:
    """Count the topics of each flow."""
    topics = steps.group_by("flow").aggregate([("topic", "count_distinct")])
    return {row["flow"]: row["topic_count_distinct"] for row in topics.to_pylist()}


def furthest_behind(steps: pa.Table, most: int) -> pa.Table:
    """Keep the steps of `most` topics of each flow: those furthest behind in time, then in records."""
    by_topic = steps.group_by(["flow", "topic"]).aggregate([(_LAG_MS, "max"), (_LAG, "max")])
    order = [("flow", "ascending"), (f"{_LAG_MS}_max", "descending"), (f"{_LAG}_max", "descending")]
    ranked = by_topic.sort_by([*order, ("topic", "ascending")])
    kept = []
    for flow in pc.unique(ranked.column("flow")).to_pylist():
        first = ranked.filter(pc.equal(ranked.column("flow"), flow)).column("topic").slice(0, most)
        own = steps.filter(pc.equal(steps.column("flow"), flow))
        kept.append(own.filter(pc.is_in(own.column("topic"), value_set=first.combine_chunks())))
    return pa.concat_tables(kept) if kept else steps


def flow_lags(steps: pa.Table) -> Iterator[tuple[tuple[str, int], tuple[int | None, float | None]]]:
    """Yield the lag of each flow at each step, by flow and Unix ms: the sum of records, and the worst in seconds."""
    summed = steps.group_by(["flow", "at_ms"]).aggregate([(_LAG, "sum"), (_LAG_MS, "max")])
    for row in summed.to_pylist():
        lag_ms = row[f"{_LAG_MS}_max"]
        yield (row["flow"], row["at_ms"]), (row[f"{_LAG}_sum"], None if lag_ms is None else lag_ms / 1000)
