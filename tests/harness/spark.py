"""A plain Spark session in this process, without Ray: what jobs are tested on."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from deploy.local.jars import spark_jar_paths
from deploy.local.java import find_spark_java
from engine.jobs.session import spark_conf, zip_code

END_S = 60.0


@contextmanager
def local_spark(folder: Path, *, cores: int = 2) -> Iterator[SparkSession]:
    """Start Spark as `local[cores]`, with the connector's jars; stop it, and its JVM, at the end."""
    told = {
        "JAVA_HOME": str(find_spark_java().parent.parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,  # its workers are some other `python3` otherwise
    }
    before = {name: os.environ.get(name) for name in told}
    os.environ |= told
    builder = SparkSession.builder.master(f"local[{cores}]").appName("raymirror-tests")
    more = {"spark.driver.memory": "1g", "spark.log.level": "ERROR"}
    for key, value in spark_conf(jars=spark_jar_paths(), scratch=folder / "scratch", more=more).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.addPyFile(str(zip_code(folder)))
    try:
        yield session
    finally:
        gateway: Any = SparkContext._gateway
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()  # what the JVM lives by
        gateway.proc.wait(END_S)
        SparkContext._gateway = SparkContext._jvm = None
        for name, former in before.items():
            if former is None:
                del os.environ[name]
            else:
                os.environ[name] = former
