"""A plain Spark session in this process, without Ray, for tests of jobs."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from deploy.local.jars import spark_jar_paths
from deploy.local.java import find_spark_java
from engine.jobs.runtime import local
from engine.jobs.runtime.session import zip_code


@contextmanager
def local_spark(folder: Path, *, cores: int = 2, master: str = "") -> Iterator[SparkSession]:
    """Start Spark as `local[cores]`, with the connector's jars and our code; stop it, and its JVM, at the end.

    `master`: another kind of Spark on this machine. Main thread only.
    """
    java = find_spark_java()
    on_interrupt = signal.getsignal(signal.SIGINT)
    with local.local_spark("raymirror-tests", cores, spark_jar_paths(), java, memory="1g", master=master) as session:
        signal.signal(signal.SIGINT, on_interrupt)  # PySpark has one of its own: a run was seen to outlive it
        session.sparkContext.addPyFile(str(zip_code(folder)))
        yield session
