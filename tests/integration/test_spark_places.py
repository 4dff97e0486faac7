"""Nodes for Spark: it is refused or waits, with the reason, until it has a place; it moves when that node dies."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Pair
from tests.harness.live import LiveMirror
from tests.harness.ray_cluster import ray_cluster
from tests.harness.spark_nodes import host_node
from tests.integration.test_spark import READY_S, start_probe, told
from tests.integration.test_spark_faults import AGAIN_S, copy_some, mirror_of, probe_runs, spark_is

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.fault, pytest.mark.full]

SHARED = {"raymirror.storage.shared": "true"}


def drain(live: LiveMirror, folder: Path, node: str) -> None:
    command = [sys.executable, "-m", "actors", "drain", "--node", node]
    assert subprocess.run(command, env=live.env, cwd=folder, timeout=READY_S, check=False).returncode == 0


def test_spark_goes_where_java_and_room_are(cluster_pair: Pair, tmp_path: Path) -> None:
    with ray_cluster(tmp_path / "ray", head_cpus=2, head_java=False) as ray:
        settings = {**SHARED, "raymirror.storage": f"file:{tmp_path}/kept", "raymirror.spark.executor.cores": "3"}
        with mirror_of("dry", cluster_pair, ray, tmp_path, **settings) as live:
            probe = start_probe(ray.env, tmp_path, tasks=1, task_s=0)
            live.until(spark_is(live, "refused", "no node of the Ray cluster was started with Java"), "it is refused")
            copy_some(cluster_pair, live, "dry")
            ray.add_node(cpus=1)
            live.until(spark_is(live, "starting", "is that large (at most 1 CPU"), "it waits for room", READY_S)
            copy_some(cluster_pair, live, "dry")
            assert ray.head.only("raylet").is_running()
            ray.add_node(cpus=3)
            assert len(told(probe).answers) == 1, "what waited runs where Java and room are"
            live.until(spark_is(live, "ready"), "it is ready", READY_S)
            assert ray.head.only("raylet").is_running()
            copy_some(cluster_pair, live, "dry")


def test_spark_leaves_a_node_that_is_drained_and_goes_elsewhere_from_one_that_dies(
    cluster_pair: Pair, tmp_path: Path
) -> None:
    with ray_cluster(tmp_path / "ray", [2, 2], head_cpus=2, head_java=False) as ray:
        settings = {**SHARED, "raymirror.storage": f"file:{tmp_path}/kept"}
        with mirror_of("spark-moved", cluster_pair, ray, tmp_path, **settings) as live:
            probe = start_probe(ray.env, tmp_path, tasks=8, task_s=5)
            live.until(probe_runs(live), "the job runs", READY_S)
            first = host_node(ray)
            node = ray.node_id(first)
            drain(live, tmp_path, node)
            live.until(lambda: live.told(f"its node {node} is being drained"), "it leaves", READY_S)
            live.until(probe_runs(live), "the job runs on", AGAIN_S)
            second = host_node(ray)
            assert second is not first
            ray.add_node(cpus=2)
            ray.kill_node(first)
            ray.kill_node(second)
            copy_some(cluster_pair, live, "spark-moved")
            live.until(lambda: probe.poll() is not None, "the job ends", AGAIN_S)
            assert len(told(probe).answers) == 8
            assert host_node(ray) not in (first, second)
            copy_some(cluster_pair, live, "spark-moved")
