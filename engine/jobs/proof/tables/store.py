"""Reads and writes the tables of proofs (`rows.py`) with Spark."""

import secrets
from collections.abc import Sequence
from typing import Any

from pyarrow import fs
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from engine.jobs.proof.model import ProofReport, Proven
from engine.jobs.proof.state import Key
from engine.jobs.proof.tables import rows as proof_rows
from engine.jobs.proof.tables.rows import Columns, fold, joined, tables_of
from engine.jobs.runtime.storage_files import open_storage

MOST_RUNS = 100
"""Folders of the table of lanes at most; if there are more, they are merged into one."""
_DONE = "_SUCCESS"
"""The file that Spark leaves in a complete folder: a folder without it is being written just now."""
_TYPES = {"text": StringType(), "int": IntegerType(), "long": LongType()}


def _schema(columns: Columns) -> StructType:
    return StructType([StructField(name, _TYPES[kind]) for name, kind in columns.items()])


LANES = _schema(proof_rows.LANES)


def store(spark: SparkSession, folder: str, report: ProofReport) -> None:
    """Append a report to the flow's tables."""
    for name, columns, rows in tables_of(report):
        _write(spark, f"{folder}/{name}", _schema(columns), rows)


def _write(spark: SparkSession, path: str, schema: StructType, rows: Sequence[tuple[Any, ...]]) -> None:
    spark.createDataFrame(rows, schema).coalesce(1).write.mode("overwrite").parquet(path)


def proven(spark: SparkSession, folder: str) -> dict[Key, Proven]:
    """Return what earlier proofs found whole."""
    try:
        # With the pattern Spark makes no partition column of the folders' names: the tables have that column already.
        table = spark.read.schema(LANES).parquet(f"{folder}/lanes/*")
    except AnalysisException as error:
        if error.getErrorClass() == "PATH_NOT_FOUND":
            return {}
        raise
    return fold(row.asDict() for row in table.orderBy("began_ms", "run").toLocalIterator())


def tidy(spark: SparkSession, folder: str, most_runs: int = MOST_RUNS) -> None:
    """Merge the rows of lanes if more than `most_runs` runs have left some; their meaning stays the same.

    If the merge is cut off on the way, some rows exist twice; that means the same too.
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
    path = f"{folder}/lanes/{runs[-1].partition('-')[0]}-{secrets.token_hex(6)}"  # a name that no run has
    _write(spark, path, LANES, [tuple(row[name] for name in LANES.names) for row in rows])
    for run in runs:
        files.delete_dir(f"{root}/{run}")
