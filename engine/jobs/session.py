"""How a Spark session of ours is configured, and the code that its Python workers get. Knows neither RayDP nor Ray."""

import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

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
SHIPPED = (engine, policies)


def spark_conf(
    *, jars: Iterable[Path], scratch: Path, shuffle_partitions: int = SHUFFLE_PARTITIONS, more: Mapping[str, str] = {}
) -> dict[str, str]:
    """Give the settings of every session of ours, local or on RayDP.

    `jars` lie at the same path on every node. `scratch`: where JVMs keep what a killed one leaves behind, made by
    Spark where it is missing. `more` wins over what is set here.
    """
    return {
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.local.dir": str(scratch),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        # Said aloud: with the fallback, a type that Arrow cannot carry would be slow, and its NULLs another thing.
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.pyspark.fallback.enabled": "false",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.executor.extraJavaOptions": JAVA_OPTIONS,
        **more,
    }


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
