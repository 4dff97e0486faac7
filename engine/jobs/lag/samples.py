"""Decodes progress samples: turns records of the progress topic into one row per lane and one row per copier.

A row of a copier has no topic (`topic` empty, `partition` -1) and counts by bucket. A row of a lane has `copier_key`
empty, because the windows of a lane continue when another copier takes the lane over.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as t

from engine.core.reports.progress_sample import FORMAT_VERSION
from engine.jobs.lag.clocks import OBSERVED, observed

_TYPES = {"text": t.StringType(), "long": t.LongType(), "int": t.IntegerType(), "counts": t.ArrayType(t.LongType())}


def _fields(columns: str) -> list[t.StructField]:
    return [t.StructField(name, _TYPES[kind]) for name, kind in (one.split(":") for one in columns.split())]


LANE = t.StructType(
    _fields(
        """topic:text partition:int state:text reason:text position:long source_end:long lag_bytes:long lag_ms:long
           newest_ms:long span_ms:long records:long wire_bytes:long latency_ms:long"""
    )
)
"""engine/core/reports/progress_sample.py explains each field."""
ALL = t.StructType(
    _fields(
        """lanes:int records:long wire_bytes:long append_ms:counts copied_ms:counts fetched_ms:counts
           append_failures:long dropped:long waits_for:text"""
    )
)
SAMPLE = t.StructType(_fields("format:int flow:text copier:text at_ms:long span_ms:long"))
SAMPLE = SAMPLE.add("lanes", t.ArrayType(LANE)).add("all", ALL)
COUNTS = ("append_ms", "copied_ms", "fetched_ms")
ROWS = t.StructType(
    [
        t.StructField("at", t.TimestampType()),
        *_fields(
            """at_ms:long flow:text topic:text partition:int copier_key:text copier:text state:text reason:text
               position:long source_end:long lag_records:long lag_bytes:long lag_ms:long newest_ms:long span_ms:long
               records:long wire_bytes:long latency_ms:long append_ms:counts copied_ms:counts fetched_ms:counts
               append_failures:long dropped:long"""
        ),
    ]
)
"""The rows that `decode` returns. Lag is NULL if it is unknown; so are fields that a row's kind does not have."""


def decode(records: DataFrame, *, tolerance_s: float) -> DataFrame:
    """Decode the records of a progress topic (`value`: bytes, `timestamp`: when it was appended) into ROWS.

    The event time is the sample's own time, unless the copier's clock differs from the brokers' by more than
    `tolerance_s`: one fast clock would make the samples of all other copiers late. Records that are no sample, or that
    have an unknown format, are left out: other producers may write to the topic. A query over these rows reports the
    metrics `clocks.OBSERVED`.
    """
    sample = f.from_json(f.col("value").cast("string"), SAMPLE).alias("sample")
    # Parsed once: without a projection of its own, each use of a field would parse the record again.
    parsed = records.select(sample, "timestamp").where(f.col("sample.format").between(1, FORMAT_VERSION + 1))
    told_ms, appended_ms = f.col("sample.at_ms"), f.unix_millis("timestamp")
    parsed = parsed.observe(OBSERVED, *observed(told_ms, appended_ms, tolerance_s * 1000))
    lanes = f.coalesce(f.col("sample.lanes"), f.array().cast(t.ArrayType(LANE)))
    whole = f.when(f.col("sample.all").isNotNull(), f.array(_of_copier())).otherwise(f.array().cast(t.ArrayType(_ROW)))
    rows = f.explode(f.concat(f.transform(lanes, _of_lane), whole)).alias("row")
    at_ms = f.when(f.abs(told_ms - appended_ms) <= tolerance_s * 1000, told_ms).otherwise(appended_ms)
    exploded = parsed.select(
        f.timestamp_millis(at_ms).alias("at"),
        at_ms.alias("at_ms"),
        f.col("sample.flow").alias("flow"),
        f.col("sample.copier").alias("copier"),
        rows,
    )
    own = {"at", "at_ms", "flow", "copier"}
    return exploded.select(*(f.col(name if name in own else f"row.{name}").alias(name) for name in ROWS.names))


_ROW = t.StructType([field for field in ROWS.fields if field.name not in ("at", "at_ms", "flow", "copier")])


def _row(known: dict[str, Column]) -> Column:
    """Make a row; unknown fields are NULL, of their type."""
    return f.struct(
        *(known.get(field.name, f.lit(None)).cast(field.dataType).alias(field.name) for field in _ROW.fields)
    )


def _of_lane(lane: Column) -> Column:
    position, end = lane["position"], lane["source_end"]
    known = position.isNotNull() & end.isNotNull()  # a field at its default, -1, is not written
    plain = ("topic", "partition", "state", "lag_bytes", "lag_ms", "newest_ms", "position", "source_end")
    counted = ("span_ms", "records", "wire_bytes", "latency_ms")
    return _row(
        {name: lane[name] for name in plain}
        | {name: f.coalesce(lane[name], f.lit(0)) for name in counted}
        | {
            "copier_key": f.lit(""),
            "reason": f.coalesce(lane["reason"], f.lit("")),
            "lag_records": f.when(known, f.greatest(end - position, f.lit(0))),
        }
    )


def _of_copier() -> Column:
    whole = f.col("sample.all")
    counted = ("records", "wire_bytes", "append_failures", "dropped")
    return _row(
        {name: f.coalesce(whole[name], f.lit(0)) for name in counted}
        | {name: whole[name] for name in COUNTS}
        | {
            "topic": f.lit(""),
            "partition": f.lit(-1),
            "copier_key": f.col("sample.copier"),
            "state": f.lit(""),
            "reason": f.coalesce(whole["waits_for"], f.lit("")),
            "span_ms": f.col("sample.span_ms"),
        }
    )
