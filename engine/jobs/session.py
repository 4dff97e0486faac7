"""How a Spark session of ours is configured, and the code that its Python workers get. Knows neither RayDP nor Ray."""

import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import engine
import policies

SHUFFLE_PARTITIONS = 2
"""Spark's default of 200 made micro-batches of 19-31 s on one core; tables here are small, streams narrow."""
_OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.math"),
    *("java.text", "java.util", "java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch", "sun.nio.cs"),
    *("sun.security.action", "sun.util.calendar", "jdk.internal.ref"),
)
JAVA_OPTIONS = " ".join(
    ["-XX:+IgnoreUnrecognizedVMOptions", *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED)]
)
"""What Java 17 must open to Spark: `spark-submit` says it to the JVMs it starts, but others start RayDP's."""
SMALL_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40"
"""For JVMs that plan and coordinate: G1's threads and regions and the second compiler cost more than they bring there.
A heap begins small, and gives back after a full collection."""
_SERIAL_CORES = 2
_YOUNG_SHARE = 16
_SMALL_HEAP = 2 * 1024**3
POOLS = """<allocations>
  <pool name="stream"><schedulingMode>FIFO</schedulingMode><weight>1000</weight><minShare>1</minShare></pool>
  <pool name="batch"><schedulingMode>FAIR</schedulingMode><weight>1</weight><minShare>0</minShare></pool>
</allocations>
"""
"""Spark takes no core from a running task, so tasks of batch jobs are short, and streams have the next free one."""
SHIPPED = (engine, policies)


def executor_java(cores: int, memory_bytes: int) -> str:
    """Give the options of a small executor's JVM; those of a large one are Java's own choice.

    RayDP says -Xms as large as -Xmx, behind what is said here, so the heap is there at once. What bounds the part of
    it that is ever touched is a young generation that is small: objects of a batch die in it. The second compiler
    stays, for proofs.
    """
    if cores > _SERIAL_CORES or memory_bytes > _SMALL_HEAP:
        return ""
    return f"-XX:+UseSerialGC -Xmn{memory_bytes // _YOUNG_SHARE >> 20}m"


def spark_conf(
    *, jars: Iterable[Path], scratch: Path, shuffle_partitions: int = SHUFFLE_PARTITIONS, more: Mapping[str, str] = {}
) -> dict[str, str]:
    """Give the settings of every session of ours, local or on RayDP.

    `jars` lie on the driver's machine. `scratch`: where JVMs keep what a killed one leaves behind; what the driver
    needs there is written now. `more` wins over what is set here. Raises OSError.
    """
    return {
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.local.dir": str(scratch),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        "spark.sql.session.timeZone": "UTC",
        # Without: a second batch behind each one, only to forget old windows, which the next batch does as well.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        # Of the place of a query; 100 by default, of some eight files each. It goes on from the last one.
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": _write_pools(scratch).as_uri(),
        # What the driver remembers of work that is over, of which nobody asks: by default a thousand jobs with plans.
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "50",
        "spark.ui.retainedTasks": "500",
        "spark.sql.ui.retainedExecutions": "10",
        # Said aloud: with the fallback, a type that Arrow cannot carry would be slow, and its NULLs another thing.
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.pyspark.fallback.enabled": "false",
        # What a query polled last of each partition stays so long, of thousands perhaps; by default for 5 minutes.
        "spark.kafka.consumer.fetchedData.cache.timeout": "5s",
        "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "2s",
        # Python workers leave their working folder out: it comes before what is sent, and may hold another `engine`.
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.executor.extraJavaOptions": JAVA_OPTIONS,
        **more,
    }


def _write_pools(scratch: Path) -> Path:
    scratch.mkdir(parents=True, exist_ok=True)
    path = scratch / "pools.xml"
    path.write_text(POOLS)
    return path


def zip_code(folder: Path) -> Path:
    """Zip `engine` and `policies` as this process imported them, for `SparkContext.addPyFile`; give the archive.

    Ray's working folder does not reach the Python workers of executors, and their current folder is anybody's.
    """
    archive = folder / "raymirror-code.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        for package in SHIPPED:
            root = Path(package.__path__[0])
            for path in sorted(root.rglob("*.py")):
                made.write(path, f"{root.name}/{path.relative_to(root)}")
    return archive


def leave_thread(spark: Any) -> None:
    """Close this thread's connection to the JVM, the last thing that a thread does with a session.

    PySpark opens one for each thread, with a thread of the JVM behind it, and closes none.
    """
    gateway = spark.sparkContext._gateway
    connection = gateway._gateway_client.get_thread_connection() if gateway is not None else None
    if connection is not None:
        connection.close()
