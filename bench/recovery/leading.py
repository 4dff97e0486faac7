"""Reads the leaders of partitions of a bench's cluster, and changes them by Kafka's own tools."""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.recovery.stage import describe
from deploy.local.cluster import EmbeddedCluster

Place = tuple[str, int]
"""A topic and a partition."""
_REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
_ELECT = "org.apache.kafka.tools.LeaderElectionCommand"


class Led(NamedTuple):
    """One partition: its leader's node id (-1: none) and its replicas, the preferred leader first."""

    leader: int
    replicas: tuple[int, ...]


def led(cluster: EmbeddedCluster, *topics: str) -> dict[Place, Led]:
    """Describe the partitions of topics; without names, of all topics. Raises BenchError."""
    return {
        (topic["topic"], one["partition"]): Led(one["leader"], tuple(one["replicas"]))
        for topic in asyncio.run(describe(cluster, *topics))
        for one in topic["partitions"]
    }


def assign(cluster: EmbeddedCluster, wanted: Mapping[Place, Sequence[int]], folder: Path) -> None:
    """Assign these replicas, all in sync already, to partitions, and elect the first one. Raises ClusterError."""
    reassign(cluster, wanted, folder)
    elect(cluster, "PREFERRED", wanted, folder)


def reassign(cluster: EmbeddedCluster, wanted: Mapping[Place, Sequence[int]], folder: Path) -> None:
    """Assign these replicas to partitions. Returns when the cluster has accepted it. Raises ClusterError.

    New replicas may still read, and leaders stay while they can.
    """
    partitions = [{"topic": topic, "partition": at, "replicas": [*ids]} for (topic, at), ids in wanted.items()]
    file = folder / "reassign.json"
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    servers = ("--bootstrap-server", cluster.bootstrap_servers)
    cluster.tool(_REASSIGN, *servers, "--reassignment-json-file", str(file), "--execute")


def elect(cluster: EmbeddedCluster, kind: str, places: Iterable[Place], folder: Path) -> None:
    """Elect leaders, `PREFERRED` or `UNCLEAN`. Raises ClusterError."""
    file = folder / "elect.json"
    file.write_text(json.dumps({"partitions": [{"topic": topic, "partition": at} for topic, at in places]}))
    servers = ("--bootstrap-server", cluster.bootstrap_servers)
    cluster.tool(_ELECT, *servers, "--election-type", kind, "--path-to-json-file", str(file))
