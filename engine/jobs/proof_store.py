"""What proofs leave behind: two Parquet tables per flow, appended to by each run, and what follows from the first.

<proofs>/lanes/run=.../         one row a lane: what was read, what is proven; those of many runs are put together
<proofs>/differences/run=.../   one row a difference
"""

import secrets
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from pyarrow import fs
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from engine.jobs.proof_state import Key
from engine.jobs.proof_stretch import Proven
from engine.jobs.proof_terms import Difference, LaneReport, ProofReport
from engine.jobs.storage_files import open_storage

MOST_RUNS = 100
"""Folders of the table of lanes; where there are more, they become one."""
_DONE = "_SUCCESS"
"""What Spark leaves in a folder that is written whole: others are somebody's who writes just now."""
_SUMMED = ("records", "payload_bytes", "without_record", "not_comparable")

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
    _write(spark, f"{folder}/lanes/run={report.run}", LANES, _rows(LANES, report, report.lanes))
    if report.differences:
        rows = _rows(DIFFERENCES, report, report.differences)
        _write(spark, f"{folder}/differences/run={report.run}", DIFFERENCES, rows)


def _rows(schema: StructType, report: ProofReport, found: Sequence[LaneReport | Difference]) -> list[tuple[Any, ...]]:
    columns = schema.names[2:]
    return [(report.run, report.began_ms, *(msgspec.to_builtins(one)[name] for name in columns)) for one in found]


def _write(spark: SparkSession, path: str, schema: StructType, rows: Sequence[tuple[Any, ...]]) -> None:
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


def tidy(spark: SparkSession, folder: str, most_runs: int = MOST_RUNS) -> None:
    """Put the rows of lanes together where more runs than so many have left some; what they say stays the same.

    What is cut off on the way leaves rows twice, which say the same too.
    """
    files, root = open_storage(f"{folder}/lanes")
    listed = files.get_file_info(fs.FileSelector(root, allow_not_found=True))
    begun = sorted(info.base_name for info in listed if info.base_name.startswith("run="))
    marks = files.get_file_info([f"{root}/{run}/{_DONE}" for run in begun])
    runs = [run for run, mark in zip(begun, marks, strict=True) if mark.type is fs.FileType.File]
    if len(runs) <= most_runs:
        return
    table = spark.read.schema(LANES).parquet(*(f"{folder}/lanes/{run}" for run in runs))
    rows = joined(row.asDict() for row in table.orderBy("began_ms", "run").toLocalIterator())
    path = f"{folder}/lanes/{runs[-1].partition('-')[0]}-{secrets.token_hex(6)}"  # of a name that none of them has
    _write(spark, path, LANES, [tuple(row[name] for name in LANES.names) for row in rows])
    for run in runs:
        files.delete_dir(f"{root}/{run}")


def joined(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put together rows of a lane that were read one right behind the other and found whole, the oldest first."""
    found: list[dict[str, Any]] = []
    last: dict[Key, dict[str, Any]] = {}
    for row in rows:
        key = _key(row)
        before = last.get(key)
        if before is not None and _meet(before, row):
            before |= {**row, "source_from": before["source_from"], "target_from": before["target_from"]} | {
                name: before[name] + row[name] for name in _SUMMED
            }
        else:
            last[key] = dict(row)
            found.append(last[key])
    return found


def _meet(before: dict[str, Any], row: dict[str, Any]) -> bool:
    whole = all(one["verdict"] == "whole" and not one["differences"] and not one["note"] for one in (before, row))
    return whole and (before["source_to"], before["proven_from"]) == (row["source_from"], row["proven_from"])


def _key(row: dict[str, Any]) -> Key:
    return row["topic"], row["partition"], row["source_id"], row["target_id"], row["generation"]


def fold(rows: Any) -> dict[Key, Proven]:
    """Put together what the rows of runs say, the oldest first: stretches that meet are one, a fault ends them."""
    found: dict[Key, Proven] = {}
    for row in rows:
        key = _key(row)
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
