"""Decides whether Spark takes part in the demo: it needs memory, and a Java that Spark supports."""

from deploy.local.errors import ClusterError
from deploy.local.java import find_spark_java
from deploy.preflight import GIB, available_memory_bytes

LEAST_MEMORY_GIB = 4
"""Free memory for the whole demo: two brokers, Ray, producers, and the driver, app master and executor of Spark."""


def why_without_spark(*, wanted: bool) -> str:
    """Say why the demo runs without Spark; empty if it runs with Spark. Ask before anything of the demo runs."""
    if not wanted:
        return "--no-spark"
    free_gib = available_memory_bytes() / GIB
    if free_gib < LEAST_MEMORY_GIB:
        return f"the demo with Spark needs {LEAST_MEMORY_GIB} GiB of free memory, and there are {free_gib:.1f} GiB"
    try:
        find_spark_java()
    except ClusterError as error:
        return f"Spark has no Java here: {error}"
    return ""
