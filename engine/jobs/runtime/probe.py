"""The smallest job, a check of the executors: every task reports which code it runs, where, and that the code works."""

import os
import sys
import threading
from contextlib import nullcontext

import msgspec
from pyspark.sql import SparkSession

import engine
from engine.jobs.runtime.core_budget import CoreBudget
from policies.naming import DefaultNaming


class ProbeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The number of tasks, and the least length of each in seconds; `large`: ask for all executors meanwhile."""

    tasks: int = 2
    task_s: float = 0.0
    large: bool = False


class ProbeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of one task: the file of the imported `engine`, its working folder and Python, a topic by `policies`."""

    engine: str
    folder: str
    python: str
    topic: str


class ProbeReport(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of all tasks."""

    answers: tuple[ProbeAnswer, ...]


def run(spark: SparkSession, options: ProbeOptions, share: CoreBudget) -> ProbeReport:
    """Run the tasks and collect their answers."""
    task_s = options.task_s
    asked = spark.sparkContext.parallelize(range(options.tasks), options.tasks).map(
        lambda number: _answer(number, task_s)
    )
    with share.large_job() if options.large else nullcontext():
        return ProbeReport(answers=tuple(ProbeAnswer(**answer) for answer in asked.collect()))


def _answer(number: int, task_s: float) -> dict[str, str]:
    threading.Event().wait(task_s)
    topic = DefaultNaming().remote_topic("A", f"probe-{number}")
    return {"engine": engine.__file__, "folder": os.getcwd(), "python": sys.executable, "topic": topic}
