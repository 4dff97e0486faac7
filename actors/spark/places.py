"""Finds where Spark can run on the nodes of a Ray cluster, and says what to do if it has no place."""

from typing import Any

from actors.spark.java import JAVA_RESOURCE
from engine.config.settings import SparkConfig

HEAD = "node:__internal_head__"


def ray_nodes() -> list[dict[str, Any]]:
    """Ask Ray for its nodes. Blocks."""
    import ray

    untyped: Any = ray
    found: list[dict[str, Any]] = untyped.nodes()
    return found


def with_java(nodes: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Return the resources of the living nodes that have Java, from the answer of `ray.nodes()`."""
    living = [node["Resources"] for node in nodes if node["Alive"]]
    return [resources for resources in living if JAVA_RESOURCE in resources]


def refusal_of(nodes: list[dict[str, Any]], *, head_only: bool, cores: int = 1) -> str:
    """Return why Spark has no place on these nodes; empty if it has one. `cores`: the cores of one executor."""
    right = "start nodes with deploy/ray/start-node.sh, and Java 17 to 21 on them"
    having = with_java(nodes)
    if not having:
        return f"no node of the Ray cluster was started with Java (resource {JAVA_RESOURCE}); {right}"
    head: dict[str, float] = next((resources for resources in having if HEAD in resources), {})
    if not head_only or head.get("CPU", 0) >= cores:
        return ""
    lacks = f"has {head.get('CPU', 0):g} CPU, and an executor takes {cores}" if head else "was started without Java"
    return (
        "raymirror.storage is a folder that only one machine sees, so Spark runs on the head node, which"
        f" {lacks}; set raymirror.storage.shared = true if all nodes see the folder, or use s3a: or gs:"
    )


def waiting_text(spark: SparkConfig, nodes: list[dict[str, Any]], executors: int, wanted: int, node: str = "") -> str:
    """Explain that only `executors` of `wanted` have a place, and how to give it to the others.

    `node`: address of the only possible node.
    """
    there = "on the head node, where raymirror.storage is" if node else "on a node with Java"
    return (
        f"waiting for resources: {executors or 'none'} of {wanted} executors has a place; each takes"
        f" {spark.cores} CPU and {spark.memory_bytes:,} bytes of Ray memory {there}; {_right(spark, nodes, node)}"
    )


def _right(spark: SparkConfig, nodes: list[dict[str, Any]], node: str) -> str:
    found = [one for one in with_java(nodes) if not node or f"node:{node}" in one]
    if any(one.get("CPU", 0) >= spark.cores and one.get("memory", 0) >= spark.memory_bytes for one in found):
        return "start more nodes, free resources that other jobs hold, or lower raymirror.spark.executors"
    cpus = max((one.get("CPU", 0) for one in found), default=0)
    memory = max((one.get("memory", 0) for one in found), default=0)
    return (
        f"no such node is that large (at most {cpus:g} CPU and {memory:,.0f} bytes): start larger ones, or lower"
        " raymirror.spark.executor.cores or raymirror.spark.executor.memory.bytes"
    )
