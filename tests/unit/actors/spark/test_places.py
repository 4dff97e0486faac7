"""Nodes on which Spark may run: only with Java, and near its storage."""

from typing import Any

from actors.spark.places import HEAD, refusal_of, waiting_text, with_java
from engine.config.settings import SparkConfig


def node(*resources: str, alive: bool = True) -> dict[str, Any]:
    return {"Alive": alive, "Resources": dict.fromkeys(resources, 1.0)}


def test_a_node_with_java_is_a_place() -> None:
    nodes = [node(HEAD, "raymirror_java", "CPU"), node("CPU")]
    assert refusal_of(nodes, head_only=True) == ""
    assert with_java(nodes) == [{HEAD: 1.0, "raymirror_java": 1.0, "CPU": 1.0}]


def test_without_java_anywhere_spark_is_refused_with_what_would_be_right() -> None:
    for nodes in ([node(HEAD)], [node(HEAD), node("raymirror_java", alive=False)]):
        why = refusal_of(nodes, head_only=False)
        assert "no node of the Ray cluster was started with Java (resource raymirror_java)" in why
        assert "start-node.sh" in why


def test_a_folder_of_one_machine_needs_java_and_cpus_on_the_head() -> None:
    nodes = [node(HEAD, "CPU"), node("raymirror_java", "CPU")]
    assert refusal_of(nodes, head_only=False) == ""
    why = refusal_of(nodes, head_only=True)
    assert "Spark runs on the head node, which was started without Java" in why
    assert "raymirror.storage.shared = true" in why
    without = [node(HEAD, "raymirror_java"), node("raymirror_java", "CPU")]
    assert "the head node, which has 0 CPU, and an executor takes 1" in refusal_of(without, head_only=True)
    assert "has 1 CPU, and an executor takes 2" in refusal_of(
        [node(HEAD, "raymirror_java", "CPU")], head_only=True, cores=2
    )


def sized(cpus: float, memory: float, address: str = "10.0.0.1") -> dict[str, Any]:
    resources = {"raymirror_java": 1.0, "CPU": cpus, "memory": memory, f"node:{address}": 1.0}
    return {"Alive": True, "Resources": resources}


def test_executors_without_a_place_are_told_with_what_would_give_them_one() -> None:
    asked = SparkConfig(on=True, executors=3, cores=4, memory_bytes=2000)
    there = [sized(4, 2000), sized(2, 9000, "10.0.0.2")]
    assert waiting_text(asked, there, 1, 3) == (
        "waiting for resources: 1 of 3 executors has a place; each takes 4 CPU and 2,000 bytes of Ray memory on a node"
        " with Java; start more nodes, free resources that other jobs hold, or lower raymirror.spark.executors"
    )
    small = [sized(4, 1500), sized(2, 9000, "10.0.0.2")]
    assert waiting_text(asked, small, 0, 3).endswith(
        "no such node is that large (at most 4 CPU and 9,000 bytes): start larger ones, or lower"
        " raymirror.spark.executor.cores or raymirror.spark.executor.memory.bytes"
    )


def test_where_the_storage_is_on_one_node_only_that_one_counts() -> None:
    asked = SparkConfig(on=True, executors=1, cores=4, memory_bytes=2000)
    text = waiting_text(asked, [sized(4, 2000), sized(2, 9000, "10.0.0.2")], 0, 1, "10.0.0.2")
    assert "on the head node, where raymirror.storage is; no such node is that large (at most 2 CPU" in text
    assert "(at most 0 CPU and 0 bytes)" in waiting_text(asked, [], 0, 1)
