"""A plain Spark session in this process, without Ray, for tests of jobs."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from deploy.local.jars import ensure_s3_jars, s3_jar_paths, say_aloud, spark_jar_paths
from deploy.local.java import find_spark_java
from engine.jobs.runtime import local
from engine.jobs.runtime.session import JAVA_OPTIONS, SMALL_JAVA, zip_code
from engine.jobs.runtime.storage_access import is_s3

# It lives for minutes at most, on tables of a few rows: the optimising compiler would take more than it gives back.
_QUICK = {"spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {SMALL_JAVA}"}


@contextmanager
def local_spark(folder: Path, *, cores: int = 2, master: str = "", storage: str = "") -> Iterator[SparkSession]:
    """Start Spark as `local[cores]`, with the connector's jars and our code; stop it, and its JVM, at the end.

    `master`: another kind of Spark on this machine. `storage`: the URI that it must reach. Main thread only.
    """
    java, jars = find_spark_java(), [*spark_jar_paths()]
    if is_s3(storage):
        ensure_s3_jars(say_aloud)
        jars += s3_jar_paths()
    on_interrupt = signal.getsignal(signal.SIGINT)
    with local.local_spark(
        "raymirror-tests", cores, jars, java, memory="1g", master=master, storage=storage, more=_QUICK
    ) as session:
        signal.signal(signal.SIGINT, on_interrupt)  # PySpark has one of its own: a run was seen to outlive it
        session.sparkContext.addPyFile(str(zip_code(folder)))
        yield session
