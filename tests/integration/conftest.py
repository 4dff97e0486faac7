"""One pair of real clusters for the whole run."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from deploy.local.cluster import Cluster, start_clusters


class Pair(NamedTuple):
    """The two clusters most integration tests use."""

    source: Cluster
    target: Cluster


@pytest.fixture(scope="session")
def cluster_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both clusters, one broker each, started side by side and stopped by pid at the end."""
    folder: Path = tmp_path_factory.mktemp("clusters")
    pair = Pair(Cluster("source", folder / "source"), Cluster("target", folder / "target"))
    start_clusters(*pair)
    try:
        yield pair
    finally:
        for cluster in pair:
            cluster.stop()


@pytest.fixture(scope="session")
def source_cluster(cluster_pair: Pair) -> Cluster:
    """Where records come from. Shared: use topic names of your own."""
    return cluster_pair.source


@pytest.fixture(scope="session")
def target_cluster(cluster_pair: Pair) -> Cluster:
    """Where records go. Shared: use topic names of your own."""
    return cluster_pair.target
