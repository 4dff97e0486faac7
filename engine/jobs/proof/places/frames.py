"""Builds a proof's tables on Spark: records of both logs from the Kafka connector, and tables of lanes and runs."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from engine.jobs.proof import rules as proof_rules
from engine.jobs.proof.place import LaneRow
from engine.jobs.runtime.kafka_options import FORMAT
from policies.model import TopicPartition

Interval = tuple[int, int]
_POLLING = {"kafka.max.poll.records": "2000", "kafka.receive.buffer.bytes": "-1"}
"""Spark asks for start and end of the log after each poll: two round trips for each 500 records, by Kafka's default.

By default Spark sets the receive buffer to 64 KiB; -1: the system chooses the size, which a distant cluster needs.
"""
DIALECT = proof_rules.Dialect(
    hash="XXHASH64",
    headers="COALESCE(SIZE(r.headers), 0), TRANSFORM(r.headers, one -> STRUCT("
    "COALESCE(LENGTH(one.key), -1) AS l1, one.key, COALESCE(LENGTH(one.value), -1) AS l2, one.value))",
    time="UNIX_MICROS(r.timestamp)",
)
_LANES = StructType(
    [
        StructField(
            name, StringType() if name == "topic" else LongType() if name in ("base", "width") else IntegerType()
        )
        for name in proof_rules.LANES
    ]
)
_RUNS = StructType([StructField(name, LongType()) for name in proof_rules.RUNS])


def read(
    spark: SparkSession,
    options: Mapping[str, str],
    intervals: Mapping[TopicPartition, Interval],
    *,
    committed: bool,
    tasks: int,
) -> DataFrame:
    """Read stretches of partitions, [from, to) each, in about `tasks` tasks; empty stretches are left out."""
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
    # Records that retention deletes during the read are found by the log's start afterwards.
    reader = reader.option("failOnDataLoss", "false").option("includeHeaders", "true").options(**_POLLING)
    return reader.option("minPartitions", str(max(tasks, len(some)))).load()


def _nothing(spark: SparkSession) -> DataFrame:
    """Return a table with the connector's columns and no rows."""
    return spark.createDataFrame(
        [],
        "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int,"
        " headers array<struct<key: string, value: binary>>",
    )


def lanes_table(spark: SparkSession, rows: Sequence[LaneRow]) -> DataFrame:
    """Return the table from partition to lane, for broadcast."""
    return F.broadcast(spark.createDataFrame(list(rows), _LANES))


def runs_table(spark: SparkSession, columns: Mapping[str, Any]) -> DataFrame:
    """Return the table of the maps' runs, as `plan.buckets` laid them out, for broadcast."""
    frame = pd.DataFrame({"run_lane": columns["lane"], **{name: columns[name] for name in proof_rules.RUNS[1:]}})
    return F.broadcast(spark.createDataFrame(frame, _RUNS))
