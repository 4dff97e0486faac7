"""Sums up rows of samples into one row per lane (and copier) and window; works on streams and on tables."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as t

from engine.core.reports.latency import BOUNDS_MS
from engine.jobs.lag.samples import COUNTS

_LAST = ("copier", "state", "reason", "position", "source_end", "lag_records", "lag_bytes", "lag_ms", "newest_ms")
_NO_COUNTS = f"array_repeat(0L, {len(BOUNDS_MS) + 1})"


def windows(rows: DataFrame, *, window_s: float, watermark_s: float) -> DataFrame:
    """Sum up samples into windows by event time; samples later than the watermark are left out (of streams only).

    Lag in records, bytes and ms: least, most and last; NULL if no sample knew it. `trend`: the records by which the lag
    grows each second. `drain_s`: the seconds until the lag is 0 at that pace (NULL: it does not shrink). Rates are per
    second. Latencies of copiers are counts by bucket, which can be added up further; readers compute quantiles.
    """
    size = f"{window_s * 1000:.0f} milliseconds"
    marked = rows.withWatermark("at", f"{watermark_s * 1000:.0f} milliseconds")
    grouped = marked.groupBy(f.window("at", size).alias("window"), "flow", "topic", "partition", "copier_key")
    return _finish(grouped.agg(*_sums()))


def _sums() -> list[Column]:
    still = (f.col("reason") != "") & ((f.col("lag_records") > 0) | f.col("lag_records").isNull())
    return [
        f.count(f.lit(1)).alias("samples"),
        f.min("at_ms").alias("first_ms"),
        f.max(f.struct("at_ms", *_LAST)).alias("last"),
        f.max(f.when(still, f.struct("at_ms", "reason"))).alias("stall"),
        f.sum(f.when(still, f.col("span_ms")).otherwise(0)).alias("stalled_ms"),
        *(
            how(name).alias(f"{name}_{word}")
            for name in ("lag_records", "lag_bytes", "lag_ms")
            for word, how in (("min", f.min), ("max", f.max))
        ),
        f.regr_slope(f.col("lag_records").cast("double"), f.col("at_ms") / 1000).alias("trend"),
        *(f.sum(name).alias(name) for name in ("span_ms", "records", "wire_bytes", "latency_ms", "append_failures")),
        f.max("dropped").alias("dropped"),
        *(f.collect_list(name).alias(name) for name in COUNTS),
    ]


def _finish(summed: DataFrame) -> DataFrame:
    seconds = f.col("span_ms") / 1000
    lag, trend = f.col("last.lag_records"), f.col("trend")
    added = summed.select("*", *(_added(name).alias(f"{name}_counts") for name in COUNTS))
    return added.select(
        f.unix_millis("window.start").alias("window_start_ms"),
        f.unix_millis("window.end").alias("window_end_ms"),
        "flow",
        "topic",
        "partition",
        "copier_key",
        "samples",
        "first_ms",
        f.col("last.at_ms").alias("last_ms"),
        *(f.col(f"last.{name}").alias(name) for name in _LAST if name != "reason"),
        *(f"{name}_{word}" for name in ("lag_records", "lag_bytes", "lag_ms") for word in ("min", "max")),
        trend.alias("trend"),
        f.when(lag == 0, 0.0).when(trend < 0, -lag / trend).alias("drain_s"),
        "stalled_ms",
        f.coalesce(f.col("stall.reason"), f.lit("")).alias("stall_reason"),
        "records",
        "wire_bytes",
        f.when(seconds > 0, f.col("records") / seconds).alias("records_per_s"),
        f.when(seconds > 0, f.col("wire_bytes") / seconds).alias("bytes_per_s"),
        f.when(f.col("records") > 0, f.col("latency_ms") / f.col("records")).alias("latency_mean_ms"),
        "append_failures",
        "dropped",
        *(f"{name}_counts" for name in COUNTS),
    )


def _added(name: str) -> Column:
    """Add up lists of counts, bucket by bucket; NULL if there is no list."""
    added = f"aggregate({name}, {_NO_COUNTS}, (sum, one) -> zip_with(sum, one, (a, b) -> a + b))"
    return f.expr(f"case when size({name}) > 0 then {added} end").cast(t.ArrayType(t.LongType()))
