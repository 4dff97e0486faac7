"""Both sides of a proof as they are read from their clusters: pieces in, records with their places out."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from engine.jobs import proof_frames as frames
from engine.jobs.proof_plan import Lane, Piece, buckets
from engine.jobs.session import SHUFFLE_PARTITIONS

TASK_S = 2.0
"""What a task should take: Spark takes no core from it meanwhile, and streams wait."""
_LEAST_TASK, _MOST_TASK = 1_000, 1_000_000
Stretch = tuple[int, int]


class Sides(msgspec.Struct, frozen=True, kw_only=True):
    """How both clusters are read: options of Spark's source, and whether committed records only (of the source)."""

    source: dict[str, str]
    target: dict[str, str]
    committed: bool = True

    def __repr__(self) -> str:
        return "Sides()"  # options hold passwords


class Reader:
    """Reads lanes of both sides in tasks of two seconds; the first are of `task_records`."""

    def __init__(self, spark: SparkSession, sides: Sides, lanes: Sequence[Lane], task_records: int) -> None:
        self._spark, self._sides, self._lanes = spark, sides, lanes
        self.cores = self._all_cores = max(1, spark.sparkContext.defaultParallelism)
        self._task_records = task_records

    def share(self, most_tasks: int) -> None:
        """Have so many tasks at a time from now on, 0: as many as there are cores."""
        self.cores = most_tasks or self._all_cores

    def measured(self, records: int, took_s: float) -> None:
        """Learn how many records a task should have, from how long so many of both sides took."""
        if records:
            per_task = TASK_S * records / self.cores / max(took_s, 0.001)
            self._task_records = int(min(max(per_task, _LEAST_TASK), _MOST_TASK))

    def records(
        self, found: Sequence[Piece], ends: Mapping[int, Stretch], shuffled: int = 0
    ) -> tuple[DataFrame, DataFrame]:
        """Read pieces on both sides, up to the ends given per lane (source, target), each record with its place.

        They are `shuffled` into so many tasks, 0: as many as they are read by.
        """
        lanes = self._lanes
        here = {
            lanes[one.lane].name.source: _within(one.source_from, ends[one.lane][0], lanes[one.lane].source_bounds)
            for one in found
        }
        there = {
            lanes[one.lane].name.target: _within(one.target_from, ends[one.lane][1], lanes[one.lane].target_bounds)
            for one in found
        }
        widths, columns = buckets(found)
        ours, theirs = list[frames.LaneRow](), list[frames.LaneRow]()
        for lane, base, width in widths:
            name, stamped = lanes[lane].name, int(lanes[lane].stamped)
            ours.append((*name.source, lane, 0, 1, stamped))
            theirs.append((*name.target, lane, base, width, stamped))
        self._shuffle(shuffled or max(self._tasks(here), self._tasks(there)))
        source = self._read(self._sides.source, here, committed=self._sides.committed)
        target = self._read(self._sides.target, there, committed=True)
        source = frames.contents(source, frames.lanes_table(self._spark, ours), is_target=False)
        target = frames.contents(target, frames.lanes_table(self._spark, theirs), is_target=True)
        runs = frames.runs_table(self._spark, columns)
        return source.withColumn("at", F.col("offset")), frames.placed(target, runs)

    def _read(self, options: Mapping[str, str], intervals: Mapping[Any, Stretch], *, committed: bool) -> DataFrame:
        tasks = self._tasks(intervals)
        return frames.read(self._spark, options, intervals, committed=committed, tasks=tasks)

    def _tasks(self, intervals: Mapping[Any, Stretch]) -> int:
        offsets = sum(end - start for start, end in intervals.values())
        return -(-offsets // self._task_records)

    def _shuffle(self, tasks: int) -> None:
        """Have what comes be shuffled into so many tasks at least; Spark makes fewer of small ones."""
        self._spark.conf.set("spark.sql.shuffle.partitions", str(max(tasks, SHUFFLE_PARTITIONS)))


def _within(start: int, end: int, bounds: Stretch) -> Stretch:
    low = min(max(start, bounds[0]), bounds[1])
    return low, max(low, min(end, bounds[1]))
