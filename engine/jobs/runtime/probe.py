"""The smallest job: every task says whose code it runs, where, and that the engine's code works there."""

import os
import sys
import threading

import msgspec
from pyspark.sql import SparkSession

import engine
from policies.naming import DefaultNaming


class ProbeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How many tasks are asked, and how long (seconds) each takes at least."""

    tasks: int = 2
    task_s: float = 0.0


class ProbeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What one task said: where `engine` was imported from, its working folder and Python, and a name by `policies`."""

    engine: str
    folder: str
    python: str
    topic: str


class ProbeReport(msgspec.Struct, frozen=True, kw_only=True):
    """What all tasks said."""

    answers: tuple[ProbeAnswer, ...]


def run(spark: SparkSession, options: ProbeOptions) -> ProbeReport:
    """Ask so many tasks."""
    task_s = options.task_s
    asked = spark.sparkContext.parallelize(range(options.tasks), options.tasks).map(
        lambda number: _answer(number, task_s)
    )
    return ProbeReport(answers=tuple(ProbeAnswer(**answer) for answer in asked.collect()))


def _answer(number: int, task_s: float) -> dict[str, str]:
    threading.Event().wait(task_s)
    topic = DefaultNaming().remote_topic("A", f"probe-{number}")
    return {"engine": engine.__file__, "folder": os.getcwd(), "python": sys.executable, "topic": topic}
