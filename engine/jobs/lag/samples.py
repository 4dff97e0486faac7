"""Progress samples as rows: the records of the progress topic in, one row per lane and one per copier out.

A row of a copier has no topic (`topic` empty, `partition` -1) and counts by bucket; a row of a lane has `copier_key`
empty, because windows of a lane go on when another copier takes it up.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as t

from engine.core.reports.progress_sample import FORMAT_VERSION


def _struct(*fields: tuple[str, t.DataType]) -> t.StructType:
    return t.StructType([t.StructField(name, kind) for name, kind in fields])


_TEXT, _LONG, _INT, _COUNTS = t.StringType(), t.LongType(), t.IntegerType(), t.ArrayType(t.LongType())
LANE = _struct(
    ("topic", _TEXT),
    ("partition", _INT),
    ("state", _TEXT),
    ("reason", _TEXT),
    ("position", _LONG),
    ("source_end", _LONG),
    ("lag_bytes", _LONG),
    ("lag_ms", _LONG),
    ("newest_ms", _LONG),
    ("span_ms", _LONG),
    ("records", _LONG),
    ("wire_bytes", _LONG),
    ("latency_ms", _LONG),
)
"""engine/core/reports/progress_sample.py says what each means."""
ALL = _struct(
    ("lanes", _INT),
    ("records", _LONG),
    ("wire_bytes", _LONG),
    ("append_ms", _COUNTS),
    ("copied_ms", _COUNTS),
    ("fetched_ms", _COUNTS),
    ("append_failures", _LONG),
    ("dropped", _LONG),
    ("waits_for", _TEXT),
)
SAMPLE = _struct(
    ("format", _INT),
    ("flow", _TEXT),
    ("copier", _TEXT),
    ("at_ms", _LONG),
    ("span_ms", _LONG),
    ("lanes", t.ArrayType(LANE)),
    ("all", ALL),
)
COUNTS = ("append_ms", "copied_ms", "fetched_ms")
ROWS = _struct(
    ("at", t.TimestampType()),
    ("at_ms", _LONG),
    ("flow", _TEXT),
    ("topic", _TEXT),
    ("partition", _INT),
    ("copier_key", _TEXT),
    ("copier", _TEXT),
    ("state", _TEXT),
    ("reason", _TEXT),
    ("position", _LONG),
    ("source_end", _LONG),
    ("lag_records", _LONG),
    ("lag_bytes", _LONG),
    ("lag_ms", _LONG),
    ("newest_ms", _LONG),
    ("span_ms", _LONG),
    ("records", _LONG),
    ("wire_bytes", _LONG),
    ("latency_ms", _LONG),
    *((name, _COUNTS) for name in COUNTS),
    ("append_failures", _LONG),
    ("dropped", _LONG),
)
"""What `decode` gives. Lag is NULL where nobody knows it, and what a row's kind has not."""


def decode(records: DataFrame, *, tolerance_s: float) -> DataFrame:
    """Decode the records of a progress topic (`value`: bytes, `timestamp`: when it was appended) into ROWS.

    The time of an event is the sample's own, unless the copier's clock is further from the brokers' than is tolerated:
    one clock that is fast would make everybody else's samples late. What is no sample, or of a format that is not read
    yet, is left out: others may have written there.
    """
    sample = f.from_json(f.col("value").cast("string"), SAMPLE).alias("sample")
    # Parsed once: without a projection of its own, each use of a field would parse the record again.
    parsed = records.select(sample, "timestamp").where(f.col("sample.format").between(1, FORMAT_VERSION + 1))
    lanes = f.coalesce(f.col("sample.lanes"), f.array().cast(t.ArrayType(LANE)))
    whole = f.when(f.col("sample.all").isNotNull(), f.array(_of_copier())).otherwise(f.array().cast(t.ArrayType(_ROW)))
    rows = f.explode(f.concat(f.transform(lanes, _of_lane), whole)).alias("row")
    told_ms, appended_ms = f.col("sample.at_ms"), f.unix_millis("timestamp")
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
    """Make a row; what is not known is NULL, of its type."""
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
