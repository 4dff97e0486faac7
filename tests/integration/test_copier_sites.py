"""Copiers run on the nodes of their site: they wait for such a node, and move when a reload names another site."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.demo.topics import create_topics
from deploy.local.cluster import EmbeddedCluster
from tests.harness.ray_cluster import RayCluster, ray_cluster
from tests.harness.ray_node import RayNode
from tests.harness.shell import Shell, copied, write_config
from tests.integration.test_run_command import produce

pytestmark = [pytest.mark.integration, pytest.mark.ray]

SITES = "\nsource.raymirror.site = east\ntarget.raymirror.site = west\nraymirror.copiers.near = {}\n"


def runs_on(cluster: RayCluster, node: RayNode) -> Callable[[dict[str, Any]], bool]:
    """Return a condition: the only copier works on this node."""
    node_id = cluster.node_id(node)

    def holds(status: dict[str, Any]) -> bool:
        return [one["node"] for one in status["copiers"] if one["set_ids"]] == [node_id] and len(status["copiers"]) == 1

    return holds


def test_copiers_wait_for_a_node_of_their_site_and_follow_a_reload(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    asyncio.run(create_topics(source_cluster.bootstrap_servers, {"sites": 2}))
    produce(source_cluster, "sites", 1000)
    config = write_config(tmp_path, source_cluster, target_cluster, "sites")
    text = config.read_text()
    config.write_text(text + SITES.format("target"))
    with ray_cluster(tmp_path / "ray", [1], token=True) as cluster:
        shell = Shell(tmp_path)
        shell.env |= cluster.env
        assert "is in site west" in shell("check", str(config)).stderr
        started = shell("run", str(config), "--name", "sites", "--detach")
        assert started.returncode == 0, started.stderr
        assert "is in site west" in started.stderr

        shell.until(lambda status: "is in site west" in status["flows"][0]["waiting_for"])
        east = cluster.add_node(1, site="east")
        waiting = shell.until(lambda status: "is in site west" in status["flows"][0]["waiting_for"])
        assert waiting["flows"][0]["records"] == 0, "it copies on no other node"

        west = cluster.add_node(1, site="west")
        shell.until(runs_on(cluster, west))
        shell.until(copied(1000))
        assert shell("check", str(config)).stderr == ""

        config.write_text(text + SITES.format("source"))
        reloaded = shell("reload", str(config))
        assert reloaded.returncode == 0, reloaded.stderr
        shell.until(runs_on(cluster, east))
        produce(source_cluster, "sites", 500, first=1000)
        shell.until(copied(1500))
        assert shell("stop").returncode == 0
