"""What proofs leave behind: two Parquet tables per flow, appended to by each run, and what follows from the first.

<proofs>/lanes/run=.../         one row a lane: what was read, what is proven
<proofs>/differences/run=.../   one row a difference
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from engine.jobs.proof_look import Key
from engine.jobs.proof_stretch import Proven
from engine.jobs.proof_terms import Difference, LaneReport, ProofReport

_TEXT, _NUMBER = StringType(), LongType()
LANES = StructType(
    [
        StructField("run", _TEXT),
        StructField("began_ms", _NUMBER),
        StructField("topic", _TEXT),
        StructField("partition", IntegerType()),
        StructField("target_topic", _TEXT),
        StructField("source_id", _TEXT),
        StructField("target_id", _TEXT),
        *(
            StructField(name, _NUMBER)
            for name in (
                *("generation", "source_from", "source_to", "target_from", "target_to", "proven_from", "proven_to"),
                *("records", "payload_bytes", "without_record", "not_comparable", "unmapped", "differences"),
            )
        ),
        StructField("verdict", _TEXT),
        StructField("note", _TEXT),
    ]
)
DIFFERENCES = StructType(
    [
        StructField("run", _TEXT),
        StructField("began_ms", _NUMBER),
        StructField("topic", _TEXT),
        StructField("partition", IntegerType()),
        StructField("source_offset", _NUMBER),
        StructField("target_topic", _TEXT),
        StructField("target_offset", _NUMBER),
        StructField("kind", _TEXT),
        StructField("what", _TEXT),
    ]
)


def store(spark: SparkSession, folder: str, report: ProofReport) -> None:
    """Append a report to the flow's tables."""
    _write(spark, f"{folder}/lanes/run={report.run}", LANES, report, report.lanes)
    _write(spark, f"{folder}/differences/run={report.run}", DIFFERENCES, report, report.differences)


def _write(
    spark: SparkSession,
    path: str,
    schema: StructType,
    report: ProofReport,
    found: Sequence[LaneReport | Difference],
) -> None:
    columns = schema.names[2:]
    rows = [(report.run, report.began_ms, *(msgspec.to_builtins(one)[name] for name in columns)) for one in found]
    spark.createDataFrame(rows, schema).coalesce(1).write.mode("overwrite").parquet(path)


def proven(spark: SparkSession, folder: str) -> dict[Key, Proven]:
    """Return what earlier proofs found whole."""
    try:
        # The pattern keeps Spark from making a column of the folders' names, which the tables have themselves.
        table = spark.read.schema(LANES).parquet(f"{folder}/lanes/*")
    except AnalysisException as error:
        if error.getErrorClass() == "PATH_NOT_FOUND":
            return {}
        raise
    return fold(row.asDict() for row in table.orderBy("began_ms", "run").toLocalIterator())


def fold(rows: Any) -> dict[Key, Proven]:
    """Put together what the rows of runs say, the oldest first: stretches that meet are one, a fault ends them."""
    found: dict[Key, Proven] = {}
    for row in rows:
        key = row["topic"], row["partition"], row["source_id"], row["target_id"], row["generation"]
        now = Proven(row["proven_from"], row["proven_to"])
        before = found.get(key)
        if row["verdict"] == "unproven":
            continue
        if before is None or row["differences"]:
            found[key] = now
        elif now.source_from <= before.source_to and before.source_from <= now.source_to:
            found[key] = Proven(min(now.source_from, before.source_from), max(now.source_to, before.source_to))
        elif now.source_to - now.source_from > before.source_to - before.source_from:
            found[key] = now
    return {key: one for key, one in found.items() if one.source_from < one.source_to}
