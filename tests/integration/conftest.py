"""One pair of real clusters for the whole run."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from deploy.local.cluster import Cluster, start_clusters
from tests.harness.mirror import Mirror


class Pair(NamedTuple):
    """The two clusters most integration tests use."""

    source: Cluster
    target: Cluster


@pytest.fixture(scope="session")
def cluster_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both clusters, one broker each, started side by side and stopped by pid at the end."""
    folder: Path = tmp_path_factory.mktemp("clusters")
    # The cleaner looks for work every 15 s by default; compaction tests wait for it.
    eager = {"log.cleaner.backoff.ms": "100"}
    pair = Pair(Cluster("source", folder / "source", overrides=eager), Cluster("target", folder / "target"))
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


@pytest.fixture
async def mirror(request: pytest.FixtureRequest, cluster_pair: Pair) -> Mirror:
    """A flow of the test's own between the shared clusters; its source alias and topics carry the test's name."""
    alias = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_")).strip("-")
    made = Mirror(cluster_pair.source, cluster_pair.target, alias)
    await made.open()
    return made
