"""Spark as the place of a proof: its connector reads both sides from their clusters, and its JVMs compare them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from engine.jobs.proof import rules
from engine.jobs.proof.place import Row, Stretch, ignore, read_plan
from engine.jobs.proof.places import frames
from engine.jobs.proof.plan import LanePart, ProofLane
from engine.jobs.runtime.session import SHUFFLE_PARTITIONS

TASK_S = 2.0
"""Intended length of a task in seconds: Spark takes no core from a running task, so streams wait for its end."""
_LEAST_TASK, _MOST_TASK = 1_000, 1_000_000
_FIRST_KIND = "avro,csv,json,orc,parquet,text"
"""Formats that Spark reads by its V1 interface; not Kafka, since V1 turns every record into objects and back."""


class Sides(msgspec.Struct, frozen=True, kw_only=True):
    """Options of Spark's Kafka source for both clusters; `committed`: read only committed records of the source."""

    source: dict[str, str]
    target: dict[str, str]
    committed: bool = True

    def __repr__(self) -> str:
        return "Sides()"  # options hold passwords


class SparkPlace:
    """Reads lanes of both sides in a Spark session of its own, in tasks of two seconds; the first of `task_records`."""

    dialect = frames.DIALECT

    def __init__(self, spark: SparkSession, sides: Sides, lanes: Sequence[ProofLane], task_records: int) -> None:
        # a session of its own, so that its number of shuffle partitions does not affect other jobs
        self._spark = spark.newSession()
        self._spark.conf.set("spark.sql.sources.useV1SourceList", _FIRST_KIND)
        self._sides, self._lanes = sides, lanes
        self.cores = self._all_cores()
        self._task_records = task_records

    def share(self, most_tasks: int) -> None:
        """Run at most `most_tasks` tasks at a time from now on; 0: one per core."""
        self.cores = most_tasks or self._all_cores()

    def _all_cores(self) -> int:
        """Return the cores of the session at present: executors come and go."""
        return max(1, self._spark.sparkContext.defaultParallelism)

    def measured(self, records: int, took_s: float) -> None:
        """Choose how many records a task should have: `records` of both sides took `took_s` seconds."""
        if records:
            per_task = TASK_S * records / self.cores / max(took_s, 0.001)
            self._task_records = int(min(max(per_task, _LEAST_TASK), _MOST_TASK))

    def records(
        self,
        found: Sequence[LanePart],
        ends: Mapping[int, Stretch],
        *,
        few: bool = False,
        advance: Callable[[int], None] = ignore,
    ) -> tuple[DataFrame, DataFrame]:
        """Plan the reading of pieces on both sides; Spark reads when a table is fetched, so `advance` is never called.

        `few`: shuffle into few tasks, not into as many as read the records.
        """
        both = read_plan(self._lanes, found, ends)
        self._shuffle(0 if few else max(self._tasks(both.here), self._tasks(both.there)))
        source = self._read(self._sides.source, both.here, committed=self._sides.committed)
        target = self._read(self._sides.target, both.there, committed=True)
        ours, theirs = (frames.lanes_table(self._spark, rows) for rows in (both.ours, both.theirs))
        source = self.query(rules.contents(self.dialect, is_target=False), records=source, lanes=ours)
        target = self.query(rules.contents(self.dialect, is_target=True), records=target, lanes=theirs)
        runs = frames.runs_table(self._spark, both.runs)
        return self.query(rules.at_source(), source=source), self.query(rules.placed(), target=target, runs=runs)

    def table(self, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> DataFrame:
        """Make a table of integers and booleans, with at least one row."""
        return self._spark.createDataFrame(list(rows), list(columns))

    def query(self, text: str, **tables: DataFrame) -> DataFrame:
        """Run a query text of `rules.py` on tables."""
        named: dict[str, Any] = {**tables}
        return self._spark.sql(text, **named)

    def rows(self, table: DataFrame) -> list[Row]:
        """Fetch the rows of a table."""
        return table.collect()

    def sides(self, source: DataFrame, target: DataFrame, text: str, most_tasks: int) -> list[tuple[int, Row]]:
        """Run a query text on both sides, as `ProofPlace` says."""
        both = [side.coalesce(most_tasks) if most_tasks else side for side in (source, target)]
        made = [self.query(text, records=side).withColumn("side", F.lit(number)) for number, side in enumerate(both)]
        jobs = made if most_tasks else [made[0].unionByName(made[1])]
        return [(row["side"], row) for job in jobs for row in job.collect()]

    @contextmanager
    def kept(self, table: DataFrame) -> Iterator[DataFrame]:
        """Compute a table only once while it is used several times."""
        persisted = table.persist()
        try:
            yield persisted
        finally:
            persisted.unpersist()

    def _read(self, options: Mapping[str, str], intervals: Mapping[Any, Stretch], *, committed: bool) -> DataFrame:
        tasks = self._tasks(intervals)
        return frames.read(self._spark, options, intervals, committed=committed, tasks=tasks)

    def _tasks(self, intervals: Mapping[Any, Stretch]) -> int:
        offsets = sum(end - start for start, end in intervals.values())
        return -(-offsets // self._task_records)

    def _shuffle(self, tasks: int) -> None:
        """Shuffle the next queries into at least `tasks` tasks; Spark joins small ones."""
        self._spark.conf.set("spark.sql.shuffle.partitions", str(max(tasks, SHUFFLE_PARTITIONS)))
