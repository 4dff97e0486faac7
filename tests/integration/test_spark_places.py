"""Where Spark may run: refused or waiting, with what would be right, until it has a place."""

from pathlib import Path

import pytest

from tests.conftest import Pair
from tests.harness.ray_cluster import ray_cluster
from tests.integration.test_spark import READY_S, start_probe, told
from tests.integration.test_spark_faults import copy_some, mirror_of, spark_is

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.fault, pytest.mark.full]

SHARED = {"raymirror.storage.shared": "true"}


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
