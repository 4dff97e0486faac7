"""The job that maintains the history of a flow in rounds: in the host's own process, without tasks on Spark."""

import threading

from pyspark.sql import SparkSession

from engine.base.clock import wall_ms
from engine.config.storage import Storage, needed
from engine.jobs.history.care import care
from engine.jobs.history.options import CareJobOptions, CareReport, history_uri
from engine.jobs.history.windows import History


def run(spark: SparkSession, options: CareJobOptions, storage: Storage | None, stop: threading.Event) -> CareReport:
    """Maintain the history until `stop` is set; report the last round. Raises NoStorage, HistoryDamaged, OSError."""
    history = History(history_uri(needed(storage, "the history of lag"), options.flow))
    report = CareReport()
    while not stop.is_set():
        report = care(history, options.care, wall_ms())
        stop.wait(options.every_s)
    return report
