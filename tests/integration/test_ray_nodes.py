"""Nodes started by `deploy/ray/start-node.sh`: what they claim, whom they refuse, and how their deaths appear.

The tests are steps of one story on one cluster and run in order.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tests.harness.ray_cluster import RayCluster, ray_cluster
from tests.harness.ray_demand import demand

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.fault, pytest.mark.full]

DEADLINE_S = 120.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    with ray_cluster(tmp_path_factory.mktemp("nodes"), [1, 1], token=True) as started:
        yield started


def until(holds: Callable[[], bool], what: str) -> None:
    give_up_at = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < give_up_at, f"not within {DEADLINE_S:.0f} s: {what}"
        time.sleep(0.1)


def test_every_node_says_that_it_has_java_and_the_head_has_no_cpu(cluster: RayCluster) -> None:
    seen = cluster.seen()
    assert {name: node.resources["raymirror_java"] for name, node in seen.items()} == {
        "head": 1,
        "node-1": 1,
        "node-2": 1,
    }
    assert {name: node.resources.get("CPU", 0) for name, node in seen.items()} == {"head": 0, "node-1": 1, "node-2": 1}


@pytest.mark.parametrize("mode", ["token", "disabled"])
def test_without_the_token_nobody_gets_in(cluster: RayCluster, mode: str) -> None:
    env = {**cluster.env, "RAY_AUTH_MODE": mode, "RAY_AUTH_TOKEN": "a wrong one"}
    del env["RAY_AUTH_TOKEN_PATH"]
    done = subprocess.run(
        [sys.executable, "-c", "import ray; ray.init(); print('inside')"],
        env=env,
        cwd=cluster.folder,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode != 0
    assert "inside" not in done.stdout


def test_actors_work_on_without_the_gcs_and_new_ones_start_after_it(cluster: RayCluster) -> None:
    with demand(cluster.env, cluster.folder) as actors:
        actors.hold(2)
        cluster.kill_gcs()
        actors.hold(2)
        cluster.restart_gcs()
        actors.hold(1)
        actors.hold(2)


def test_actors_of_a_node_that_is_cut_off_live_until_it_is_back(cluster: RayCluster) -> None:
    """What makes fencing necessary: the node counts as dead, its actors do not know."""
    with demand(cluster.env, cluster.folder) as actors:
        actors.hold(2)
        node = cluster.nodes[1]
        before = {process.pid for process in node.workers()}
        cluster.freeze_node(node, workers=False)
        cluster.until_dead(node)
        assert {process.pid for process in node.workers()} == before != set()
        cluster.thaw_node(node)
        until(lambda: not node.workers(), "its actors end when it learns that it was given up")


def test_a_killed_node_is_given_up_and_another_takes_its_place(cluster: RayCluster) -> None:
    cluster.kill_node(cluster.nodes[2])
    cluster.until_dead(cluster.nodes[2])
    cluster.add_node(1)
    with demand(cluster.env, cluster.folder) as actors:
        actors.hold(1)


def kept_actors(cluster: RayCluster) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.harness.ray_kept"],
        env=cluster.env,
        cwd=cluster.folder,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {name: int(pid) for name, pid in json.loads(done.stdout.splitlines()[-1]).items()}


def test_a_new_head_on_the_old_store_finds_what_ran(cluster: RayCluster) -> None:
    before = kept_actors(cluster)
    cluster.kill_head()
    cluster.restart_head()
    after = kept_actors(cluster)
    assert after["copier"] == before["copier"], "on another node: it never noticed"
    assert after["supervisor"] != before["supervisor"], "on the head: Ray started it again"
