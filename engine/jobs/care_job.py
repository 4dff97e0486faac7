"""The job that cares for the history of a flow, round after round: in the host's own process, no task of Spark's."""

import threading

from pyspark.sql import SparkSession

from engine.clock import wall_ms
from engine.jobs.history import History
from engine.jobs.history_care import care
from engine.jobs.lag_terms import CareJobTerms, CareReport, history_uri
from engine.jobs.storage import Storage, needed


def run(spark: SparkSession, terms: CareJobTerms, storage: Storage | None, stop: threading.Event) -> CareReport:
    """Care until `stop` is set; report the last round. Raises NoStorage, HistoryDamaged, OSError."""
    history = History(history_uri(needed(storage, "the history of lag"), terms.flow))
    report = CareReport()
    while not stop.is_set():
        report = care(history, terms.care, wall_ms())
        stop.wait(terms.every_s)
    return report
