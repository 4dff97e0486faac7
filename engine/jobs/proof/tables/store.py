"""The tables that proofs leave behind (`rows.py`), written and read by Spark."""

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
"""Folders of the table of lanes; where there are more, they become one."""
_DONE = "_SUCCESS"
"""What Spark leaves in a folder that is written whole: others are somebody's who writes just now."""
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
