"""Where Spark may be: only on nodes with Java, and where its storage is."""

from typing import Any

from actors.spark.hosts import HEAD, refusal_of, with_java


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
    assert "the head node, which has 0 CPUs, and an executor takes 1" in refusal_of(without, head_only=True)
    assert "has 1 CPUs, and an executor takes 2" in refusal_of(
        [node(HEAD, "raymirror_java", "CPU")], head_only=True, cores=2
    )
