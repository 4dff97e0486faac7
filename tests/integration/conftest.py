"""Fixtures: a flow between the shared clusters."""

import re
from collections.abc import Iterator

import pytest

from deploy.local.cluster import EmbeddedCluster
from tests.conftest import Pair
from tests.harness.mirror import Mirror
from tests.harness.ray_cluster import RayCluster, ray_cluster


@pytest.fixture
async def mirror(request: pytest.FixtureRequest, cluster_pair: Pair) -> Mirror:
    """A flow of the test's own between the shared clusters; its source alias and topics carry the test's name."""
    alias = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_")).strip("-")
    made = Mirror(cluster_pair.source, cluster_pair.target, alias)
    await made.open()
    return made


@pytest.fixture(scope="session")
def shared_ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    """A Ray cluster of one node that mirrors share, one after another: a copier of each flow needs one of its CPUs."""
    with ray_cluster(tmp_path_factory.mktemp("ray"), head_cpus=6) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def guarded_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """A cluster on which everything is allowed, but for what a test denies for as long as it runs. Shared: use names
    of your own, for what you deny too.
    """
    overrides = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:nobody-here",
        "allow.everyone.if.no.acl.found": "true",
    }
    everything = ("--operation", "All", "--cluster", "--topic", "*", "--group", "*", "--transactional-id", "*")
    with EmbeddedCluster("guarded", tmp_path_factory.mktemp("guarded"), overrides=overrides) as cluster:
        words = ("--add", "--allow-principal", "User:ANONYMOUS", *everything)
        cluster.tool("org.apache.kafka.tools.AclCommand", "--bootstrap-server", cluster.bootstrap_servers, *words)
        yield cluster
