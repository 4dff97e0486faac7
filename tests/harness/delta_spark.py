"""Reads a table with Spark and Delta's own jars in a separate process: `python -m tests.harness.delta_spark ...`."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from deploy.local.jar_list import decode_jars
from deploy.local.jars import cache_folder, ensure_in, say_aloud
from deploy.local.java import find_spark_java

_LIST = Path(__file__).with_name("delta-jars.sha256")
_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.log.level": "ERROR",
}


def delta_jar_paths() -> list[Path]:
    """Paths of Delta's jars for Spark 3.5; fetches missing ones. Raises ClusterError."""
    jars = decode_jars(_LIST.read_text())
    digest = hashlib.sha256(_LIST.read_bytes()).hexdigest()[:12]
    folder = ensure_in(cache_folder(), f"delta-jars-{digest}", jars, say_aloud)
    return [folder / jar.path for jar in jars]


def spark_rows(uri: str, sql: str) -> list[dict[str, Any]]:
    """Return the rows of a query on a table, which it calls `found`, as Spark reads it."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.harness.delta_spark", uri, sql], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    rows: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return rows


def main(uri: str, sql: str) -> None:
    """Print the rows as JSON."""
    from engine.jobs.runtime import local  # in the process with the JVM only

    jars, java = delta_jar_paths(), find_spark_java()
    with local.local_spark("raymirror-delta", 1, jars, java, memory="512m", more=_CONF) as spark:
        spark.read.format("delta").load(uri).createOrReplaceTempView("found")
        rows = [row.asDict() for row in spark.sql(sql).collect()]
    sys.stdout.write(json.dumps(rows) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
