"""The cluster of `deploy/ray/cluster.yaml` grows when actors wait for a CPU and shrinks when they are gone."""

from pathlib import Path

import pytest

from tests.harness.fake_cloud import fake_cloud
from tests.harness.ray_demand import demand

pytestmark = [pytest.mark.integration, pytest.mark.ray]


def test_actors_that_wait_make_nodes_and_nodes_without_actors_go(tmp_path: Path) -> None:
    with fake_cloud(tmp_path, cpus=2) as cloud, demand(cloud.env, tmp_path) as actors:
        assert cloud.fewest == 1
        actors.hold(3)
        cloud.until_nodes(2)  # three one-CPU actors take two nodes of two CPUs; the head takes none
        actors.hold(5)
        nodes = cloud.until_nodes(3)
        assert all(node.resources["raymirror_java"] == 1 for node in nodes)
        actors.hold(0)
        cloud.until_nodes(cloud.fewest)


def test_actors_of_a_site_make_nodes_of_its_type_only(tmp_path: Path) -> None:
    with fake_cloud(tmp_path, cpus=2, sites=("east", "west")) as cloud, demand(cloud.env, tmp_path, "west") as actors:
        actors.hold(1)
        nodes = cloud.until_nodes(cloud.fewest + 1)
        assert sum("raymirror_site_west" in node.resources for node in nodes) == 1
        assert not any("raymirror_site_east" in node.resources for node in nodes)
