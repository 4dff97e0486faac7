"""The job that maintains the history of lag in rounds: in the host's own process, without tasks on Spark."""

import threading

from pyspark.sql import SparkSession

from engine.base.clock import wall_ms
from engine.config.storage import Storage, needed
from engine.jobs.lag.history import most_complete
from engine.jobs.lag.options import LagCareOptions, lag_table_uri
from engine.jobs.tables.care import care
from engine.jobs.tables.catalog import LAG
from engine.jobs.tables.options import CareReport
from engine.jobs.tables.table import Table


def run(spark: SparkSession, options: LagCareOptions, storage: Storage | None, stop: threading.Event) -> CareReport:
    """Maintain the table of all flows until `stop` is set; report the last round. Raises NoStorage, TableError."""
    table = Table(lag_table_uri(needed(storage, "the history of lag")), LAG)
    report = CareReport()
    while not stop.is_set():
        if table.exists():
            report = care(table, options.care, wall_ms(), most_complete)
        stop.wait(options.every_s)
    return report
