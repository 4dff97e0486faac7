"""A JVM with Kafka's jars: its classes judge what raymirror writes for them."""

import logging
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway  # type: ignore[import-untyped]

from deploy.local.class_archive import reading_flags
from deploy.local.jars import ensure_jars, kafka_classpath, say_aloud, spark_jar_paths
from deploy.local.java import find_java
from deploy.local.tools import QUICK_FLAGS


@contextmanager
def jvm(*, of_spark: bool = False, more: Sequence[Path] = ()) -> Iterator[Any]:
    """Give the classes of a JVM with Kafka's jars, by their full names; it ends when its input closes.

    `of_spark`: the jars of Spark and of its Kafka source, with Kafka's older client. `more`: jars before
    these.
    """
    ensure_jars(say_aloud)
    jars = Path(pyspark.__file__).parent / "jars"
    (py4j,) = jars.glob("py4j-*.jar")
    classpath = ":".join([*map(str, spark_jar_paths()), f"{jars}/*"]) if of_spark else kafka_classpath()
    command = [
        str(find_java()),
        *QUICK_FLAGS,
        *reading_flags(),
        "-cp",
        ":".join([*map(str, more), classpath, str(py4j)]),  # the archive of classes wants Kafka's jars first
        "py4j.GatewayServer",
        "--die-on-broken-pipe",
        "0",
    ]
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auto_convert=True, enable_memory_management=False)
        )
        try:
            yield gateway.jvm
        finally:
            gateway.close()
            process.kill()
