"""Where the processes of a mirror's Spark run, on the nodes of a Ray cluster of this machine."""

import psutil

from tests.harness.ray_cluster import RayCluster
from tests.harness.ray_node import RayNode

HOST = "ray::SparkHostActor"


def processes_on(node: RayNode, words: str) -> list[psutil.Process]:
    """List what runs on a node and has these words in its command."""
    return [one for one in node.processes() if words in _command(one)]


def java_workers(node: RayNode, *, sized: bool) -> list[psutil.Process]:
    """List Ray's JVMs on a node. `sized`: the executors, which are told how much memory they have; else RayDP's app
    master.
    """
    # the raylet has these words in its command too
    found = [one for one in processes_on(node, "DefaultWorker") if one.name() == "java"]
    return [one for one in found if ("-Xmx" in _command(one)) is sized]


def has_master(node: RayNode) -> bool:
    """Whether one of RayDP's two masters runs on a node: Ray chooses where, and without them Spark starts again."""
    return bool(processes_on(node, "ray::RayDPSparkMaster") or java_workers(node, sized=False))


def executors_on(node: RayNode) -> list[psutil.Process]:
    return java_workers(node, sized=True)


def executors_by_node(ray: RayCluster) -> dict[str, int]:
    """Count the executors of each node that has some, by the node's name."""
    found = {node.name: len(executors_on(node)) for node in ray.nodes}
    return {name: count for name, count in found.items() if count}


def executor_node(ray: RayCluster) -> RayNode:
    """Give the one node with executors."""
    (node,) = [node for node in ray.nodes if executors_on(node)]
    return node


def host_node(ray: RayCluster) -> RayNode:
    """Give the node of the Spark host."""
    (node,) = [node for node in ray.nodes if processes_on(node, HOST)]
    return node


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""
