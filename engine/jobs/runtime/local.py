"""Starts a command's own Spark in a JVM on this machine, if no running mirror lends one. Imports pyspark."""

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from engine.jobs.runtime.session import spark_conf
from engine.jobs.runtime.storage_access import hadoop_conf

END_S = 60.0
_MEMORY = "2g"


@contextmanager
def local_spark(
    name: str,
    cores: int,
    jars: Iterable[Path],
    java: Path,
    *,
    memory: str = _MEMORY,
    master: str = "",
    storage: str = "",
    more: Mapping[str, str] = {},
) -> Iterator[SparkSession]:
    """Start Spark as `local[cores]` with the given `java` program and jars; stop Spark and its JVM at the end.

    `master`: another kind of Spark on this machine, instead of `local[cores]`. `storage`: the URI that it must reach.
    `more`: further settings. Raises BadStorageAccess.
    """
    mine = {
        "JAVA_HOME": str(java.parent.parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,  # otherwise its workers run another `python3`
    }
    before = {key: os.environ.get(key) for key in mine}
    with tempfile.TemporaryDirectory(prefix="raymirror-spark-", ignore_cleanup_errors=True) as folder:
        own = {"spark.driver.memory": memory, "spark.log.level": "ERROR", "spark.driver.host": "127.0.0.1"}
        own |= {**hadoop_conf(storage, Path(folder)), **more}
        os.environ |= mine
        try:
            builder = SparkSession.builder.master(master or f"local[{cores}]").appName(name)
            for key, value in spark_conf(jars=jars, scratch=Path(folder), more=own).items():
                builder = builder.config(key, value)
            session = builder.getOrCreate()
            try:
                yield session
            finally:
                _end(session)
        finally:
            for key, old in before.items():
                os.environ.pop(key, None) if old is None else os.environ.update({key: old})


def _end(session: SparkSession) -> None:
    gateway: Any = SparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends when its standard input closes
    gateway.proc.wait(END_S)
    SparkContext._gateway = SparkContext._jvm = None
