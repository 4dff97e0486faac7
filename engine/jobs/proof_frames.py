"""A proof's work on Spark: DataFrame -> DataFrame, in the JVM's own expressions from the log to the digest.

    read -> contents -> placed (source offset of every record, by the map) -> digests, one row a range
                                                                           -> paired, where two digests differ

A record's digest is two xxHash64 of everything a consumer sees but offset and topic: 128 bits against chance, not
against forgery. Lengths go in with every value, and -1 for null, because Spark's hash passes over nulls. A range's
digest is the XOR of its records', each with its source offset: so it tells order, and adds up in any.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pandas as pd
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from engine.jobs.kafka_options import FORMAT
from policies.model import TopicPartition

Interval = tuple[int, int]
LaneRow = tuple[str, int, int, int, int, int]
"""A row of `LANES`."""
NO_RANGE = -1
"""The range of a target record that the map does not know."""
CREATE_TIME = 0
_POLLING = {"kafka.max.poll.records": "2000", "kafka.receive.buffer.bytes": "-1"}
"""Spark asks where the log begins and ends after each poll: two round trips for each 500 records, by Kafka's default.

It sets the buffer to 64 KiB where nobody does; -1: as the system sees fit, which a far cluster needs.
"""
FIELDS = ("key", "value", "headers", "timestamp", "type")

LANES = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("lane", IntegerType()),
        StructField("base", LongType()),  # where the buckets of a target begin
        StructField("width", LongType()),
        StructField("stamped", IntegerType()),
    ]
)
RUNS = StructType([StructField(name, LongType()) for name in ("run_lane", "bucket", "first", "behind", "shift")])
WINDOWS = StructType(
    [StructField(name, LongType()) for name in ("w_lane", "s_low", "s_high", "t_low", "t_high", "core_from", "core_to")]
)
STEPS = StructType([StructField("step_lane", IntegerType()), StructField("start", LongType())])


def read(
    spark: SparkSession,
    options: Mapping[str, str],
    intervals: Mapping[TopicPartition, Interval],
    *,
    committed: bool,
    tasks: int,
) -> DataFrame:
    """Read stretches of partitions, [from, to) each, in about so many tasks; empty ones are left out."""
    some = {one: interval for one, interval in intervals.items() if interval[0] < interval[1]}
    topics: dict[str, dict[int, Interval]] = {}
    for (topic, partition), interval in some.items():
        topics.setdefault(topic, {})[partition] = interval
    if not topics:
        return _nothing(spark)
    assign = {topic: list(partitions) for topic, partitions in topics.items()}
    ends = [
        {topic: {str(number): one[side] for number, one in partitions.items()} for topic, partitions in topics.items()}
        for side in (0, 1)
    ]
    reader = spark.read.format(FORMAT).options(**options)
    reader = reader.option("assign", msgspec.json.encode(assign).decode())
    reader = reader.option("startingOffsets", msgspec.json.encode(ends[0]).decode())
    reader = reader.option("endingOffsets", msgspec.json.encode(ends[1]).decode())
    reader = reader.option("kafka.isolation.level", "read_committed" if committed else "read_uncommitted")
    # What retention takes while we read is found by the log's start afterwards.
    reader = reader.option("failOnDataLoss", "false").option("includeHeaders", "true").options(**_POLLING)
    return reader.option("minPartitions", str(max(tasks, len(some)))).load()


def _nothing(spark: SparkSession) -> DataFrame:
    """Give what the connector gives, without a row."""
    return spark.createDataFrame(
        [],
        "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int,"
        " headers array<struct<key: string, value: binary>>",
    )


def lanes_table(spark: SparkSession, rows: Sequence[LaneRow]) -> DataFrame:
    """Tell Spark which partition is which lane."""
    return F.broadcast(spark.createDataFrame(list(rows), LANES))


def runs_table(spark: SparkSession, columns: Mapping[str, Any]) -> DataFrame:
    """Tell Spark the runs of the maps, as `proof_plan.buckets` laid them out."""
    frame = pd.DataFrame({"run_lane": columns["lane"], **{name: columns[name] for name in RUNS.names[1:]}})
    return F.broadcast(spark.createDataFrame(frame, RUNS))


def contents(records: DataFrame, lanes: DataFrame, *, is_target: bool) -> DataFrame:
    """Reduce records to lane, offset, two hashes of the whole, one of each field; unneeded ones are never computed."""
    stamped = F.col("stamped") == 1
    kind = F.col("timestampType") if is_target else F.lit(CREATE_TIME)  # all that a producer may give
    time = F.when(stamped, F.lit(0).cast("long")).otherwise(F.unix_micros("timestamp"))
    kind = F.when(stamped, F.lit(CREATE_TIME)).otherwise(kind)
    key, value = _measured(F.col("key")), _measured(F.col("value"))
    headers = [
        F.coalesce(F.size("headers"), F.lit(0)),
        F.transform("headers", lambda one: F.struct(*_measured(one["key"]), *_measured(one["value"]))),
    ]
    whole = [*key, *value, *headers, time, kind]
    size = F.coalesce(F.length("key"), F.lit(0)) + F.coalesce(F.length("value"), F.lit(0))
    return records.join(lanes, ["topic", "partition"]).select(
        "lane",
        "offset",
        "base",
        "width",
        F.xxhash64(F.lit(1), *whole).alias("h1"),
        F.xxhash64(F.lit(2), *whole).alias("h2"),
        size.cast("long").alias("bytes"),
        F.xxhash64(F.lit(1), *key).alias("key"),
        F.xxhash64(F.lit(2), *key).alias("key2"),
        F.xxhash64(*value).alias("value"),
        F.xxhash64(*headers).alias("headers"),
        time.alias("timestamp"),
        kind.cast("long").alias("type"),
        F.col("value").isNull().alias("tombstone"),
    )


def _measured(bytes_: Column) -> list[Column]:
    return [F.coalesce(F.length(bytes_), F.lit(-1)), bytes_]


def placed(target: DataFrame, runs: DataFrame) -> DataFrame:
    """Give every record of the target the offset of its source record, `at`; null where the map knows none."""
    bucket = F.expr("(offset - base) div width")
    found = target.withColumn("bucket_", bucket).join(
        runs,
        (F.col("lane") == F.col("run_lane"))
        & (F.col("bucket_") == F.col("bucket"))
        & (F.col("offset") >= F.col("first"))
        & (F.col("offset") < F.col("behind")),
        "left",
    )
    return found.withColumn("at", F.col("offset") + F.col("shift")).drop("bucket_", *RUNS.names)


def ranged(records: DataFrame, steps: DataFrame, range_records: int) -> DataFrame:
    """Give every record the number of its range: so many source offsets from the piece's first on."""
    number = F.expr(f"(at - start) div {range_records}")
    joined = records.join(F.broadcast(steps), F.col("lane") == F.col("step_lane"))
    return joined.withColumn("range", F.coalesce(number, F.lit(NO_RANGE)))


def digests(records: DataFrame) -> DataFrame:
    """Digest ranges: lane, range, records, bytes, d1, d2, and the first and last offset as that side counts."""
    return records.groupBy("lane", "range").agg(
        F.count(F.lit(1)).alias("records"),
        F.sum("bytes").alias("bytes"),
        F.bit_xor(F.xxhash64("h1", "h2", F.coalesce("at", "offset"))).alias("d1"),
        F.bit_xor(F.xxhash64(F.coalesce("at", "offset"), "h2", "h1")).alias("d2"),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
    )


def paired(source: DataFrame, target: DataFrame) -> DataFrame:
    """Join both sides by source offset: lane, `at` (null: not in the map), both records, whether they are `equal`."""
    ours = source.select("lane", "at", "tombstone", *[F.col(name).alias(f"s_{name}") for name in _KEPT])
    theirs = target.select(
        F.col("lane").alias("t_lane"),
        F.col("at").alias("t_at"),
        F.col("tombstone").alias("t_tombstone"),
        *[F.col(name).alias(f"t_{name}") for name in _KEPT],
    )
    joined = ours.join(theirs, (F.col("lane") == F.col("t_lane")) & (F.col("at") == F.col("t_at")), "full_outer")
    equal = F.col("s_h1").eqNullSafe(F.col("t_h1")) & F.col("s_h2").eqNullSafe(F.col("t_h2"))
    return (
        joined.withColumn("equal", equal)
        .withColumn("lane", F.coalesce("lane", "t_lane"))
        .withColumn("at", F.coalesce("at", "t_at"))
        .withColumn("tombstone", F.coalesce("tombstone", "t_tombstone"))
        .drop("t_lane", "t_at", "t_tombstone")
    )


_KEPT = ("offset", "h1", "h2", "key", "key2", *FIELDS[1:])


def inside(records: DataFrame, window: DataFrame, side: str) -> DataFrame:
    """Keep what lies in the window (`WINDOWS`) of its lane, on that side: s or t."""
    joined = records.join(window, F.col("lane") == F.col("w_lane"))
    within = (F.col("offset") >= F.col(f"{side}_low")) & (F.col("offset") < F.col(f"{side}_high"))
    return joined.where(within).drop(*WINDOWS.names)


def first_of(left: DataFrame, share: int) -> DataFrame:
    """Take so many of each lane that are not excused, and as many of those that the map does not know."""
    order = Window.partitionBy("lane", F.col("at").isNull()).orderBy("at", "t_offset")
    return left.where("not excused").withColumn("nth", F.row_number().over(order)).where(F.col("nth") <= share)


def latest(source: DataFrame, target: DataFrame) -> DataFrame:
    """Find the last place of every key in both logs, as source offset; what the map does not know has none."""
    both = source.select("lane", "key", "key2", "at").union(target.select("lane", "key", "key2", "at"))
    return both.groupBy(F.col("lane").alias("l_lane"), F.col("key").alias("l_key"), F.col("key2").alias("l_key2")).agg(
        F.max("at").alias("last_at")
    )


def superseded(left: DataFrame, last: DataFrame, compacting: DataFrame) -> DataFrame:
    """Mark (`excused`) what a cleaner may have removed: a key that comes again later, or a tombstone, on one side only.

    `compacting` tells of each lane (`c_lane`) which side's log compacts.
    """
    key, key2 = F.coalesce("s_key", "t_key"), F.coalesce("s_key2", "t_key2")
    joined = left.join(F.broadcast(compacting), F.col("lane") == F.col("c_lane"), "left").join(
        last, (F.col("lane") == F.col("l_lane")) & (key == F.col("l_key")) & (key2 == F.col("l_key2")), "left"
    )
    gone_there = F.col("t_offset").isNull() & F.col("target_compacts")
    gone_here = F.col("s_offset").isNull() & F.col("at").isNotNull() & F.col("source_compacts")
    later = F.col("tombstone") | (F.col("last_at") > F.col("at"))
    excused = F.coalesce((gone_there | gone_here) & later, F.lit(False))
    return joined.withColumn("excused", excused).select(*left.columns, "excused")
