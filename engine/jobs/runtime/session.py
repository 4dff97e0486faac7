"""Configures raymirror's Spark sessions, and packs the code for their Python workers. Knows neither RayDP nor Ray."""

import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import engine
import policies

SHUFFLE_PARTITIONS = 2
"""Spark's default of 200 made micro-batches last 19-31 s on one core; tables here are small, and streams narrow."""
_OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.math"),
    *("java.text", "java.util", "java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch", "sun.nio.cs"),
    *("sun.security.action", "sun.util.calendar", "jdk.internal.ref"),
)
JAVA_OPTIONS = " ".join(
    ["-XX:+IgnoreUnrecognizedVMOptions", *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED)]
)
"""Packages that Java 17 must open to Spark: `spark-submit` passes them to its JVMs, but does not start RayDP's."""
SMALL_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40"
"""For JVMs that plan and coordinate: there G1's threads and regions and the C2 compiler cost more than they gain.
The heap starts small, and shrinks after a full collection."""
_SERIAL_CORES = 2
_YOUNG_SHARE = 16
_SMALL_HEAP = 2 * 1024**3
POOLS = """<allocations>
  <pool name="stream"><schedulingMode>FIFO</schedulingMode><weight>1000</weight><minShare>1</minShare></pool>
  <pool name="batch"><schedulingMode>FAIR</schedulingMode><weight>1</weight><minShare>0</minShare></pool>
</allocations>
"""
"""Spark takes no core from a running task, so tasks of batch jobs are short, and streams get the next free core."""
PLAIN_FILES = {"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem", "fs.file.impl.disable.cache": "true"}
"""Options of a DataFrameWriter that writes to a folder: no checksum file beside each file. Not for a whole session:
Hadoop's S3 client expects the usual class."""
SHIPPED = (engine, policies)


def executor_java(cores: int, memory_bytes: int) -> str:
    """Return the JVM options of a small executor; empty for a large one, where Java's defaults apply.

    RayDP sets -Xms to the value of -Xmx after these options, so the heap is reserved at once. A small young generation
    bounds the part of the heap that is ever touched: objects of a batch die there. The C2 compiler stays, for proofs.
    """
    if cores > _SERIAL_CORES or memory_bytes > _SMALL_HEAP:
        return ""
    return f"-XX:+UseSerialGC -Xmn{memory_bytes // _YOUNG_SHARE >> 20}m"


def spark_conf(
    *, jars: Iterable[Path], scratch: Path, shuffle_partitions: int = SHUFFLE_PARTITIONS, more: Mapping[str, str] = {}
) -> dict[str, str]:
    """Return the settings of every raymirror session, local or on RayDP.

    `jars` are on the driver's machine. `scratch`: the folder for files that a killed JVM would leave behind; the files
    that the driver needs there are written now. `more` overrides the settings here. Raises OSError.
    """
    return {
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.local.dir": str(scratch),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        "spark.sql.session.timeZone": "UTC",
        # If true, a second batch follows each one only to forget old windows, which the next batch does as well.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        # Batches kept in a query's checkpoint: 100 by default, some eight files each. A query resumes from the last.
        "spark.sql.streaming.minBatchesToRetain": "10",
        # Checkpoints on this machine without a checksum file beside every file. Data files need their own setting.
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": _write_pools(scratch).as_uri(),
        # Finished work that the driver keeps, although no one reads it: by default a thousand jobs with plans.
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "50",
        "spark.ui.retainedTasks": "500",
        "spark.sql.ui.retainedExecutions": "10",
        # Fail loudly: with the fallback, a type that Arrow lacks would be slow, and its NULLs would be different.
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.pyspark.fallback.enabled": "false",
        # How long the last poll of each partition, perhaps of thousands, stays in memory: by default 5 minutes.
        "spark.kafka.consumer.fetchedData.cache.timeout": "5s",
        "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "2s",
        # What Spark's own texts hide of options: by default no login of Kafka's and no key in PEM.
        "spark.redaction.regex": "(?i)secret|password|passphrase|token|access[.]key|jaas|keystore[.]key",
        # Python workers ignore their working folder: it precedes the shipped code, and may hold another `engine`.
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
    """Zip `engine` and `policies` as this process imported them, for `SparkContext.addPyFile`; return the archive.

    Ray's working folder does not reach the Python workers of executors, and their current folder may be any folder.
    """
    archive = folder / "raymirror-code.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        for package in SHIPPED:
            root = Path(package.__path__[0])
            for path in sorted(root.rglob("*.py")):
                made.write(path, f"{root.name}/{path.relative_to(root)}")
    return archive


def leave_thread(spark: Any) -> None:
    """Close this thread's connection to the JVM; a thread calls this as its last use of a session.

    PySpark opens a connection for each thread, with a JVM thread behind it, and closes none.
    """
    gateway = spark.sparkContext._gateway
    connection = gateway._gateway_client.get_thread_connection() if gateway is not None else None
    if connection is not None:
        connection.close()
