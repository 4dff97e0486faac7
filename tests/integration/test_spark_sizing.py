"""The number of Spark's executors on a real mirror: one, all for a large job, one again; what dies comes back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Pair
from tests.harness.live import LiveMirror
from tests.harness.ray_cluster import RayCluster
from tests.harness.ray_node import kill_and_wait
from tests.integration.test_spark import READY_S, start_probe, told
from tests.integration.test_spark_faults import AGAIN_S, copy_some, executors_of, host_of, mirror_of, probe_runs

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.fault, pytest.mark.full]

SIZES = {"raymirror.spark.executors": "2", "raymirror.spark.executors.idle.seconds": "3"}


@pytest.fixture
def live(cluster_pair: Pair, shared_ray: RayCluster, tmp_path: Path) -> Iterator[LiveMirror]:
    with mirror_of("sized", cluster_pair, shared_ray, tmp_path, **SIZES) as running:
        yield running


def until_executors(live: LiveMirror, ray: RayCluster, count: int) -> None:
    """Wait until Spark says that it has so many executors, and so many run."""
    live.until(
        lambda: live.status["spark"]["executors"] == count == len(executors_of(ray)),
        f"{count} of Spark's executors",
        AGAIN_S,
    )


def test_all_executors_run_while_a_large_job_does_and_one_at_rest(
    cluster_pair: Pair, shared_ray: RayCluster, live: LiveMirror, tmp_path: Path
) -> None:
    assert len(told(start_probe(shared_ray.env, tmp_path, tasks=2, task_s=0)).answers) == 2
    until_executors(live, shared_ray, 1)
    (host,) = host_of(shared_ray)
    probe = start_probe(shared_ray.env, tmp_path, tasks=30, task_s=3, large=True)
    live.until(probe_runs(live), "the job runs", READY_S)
    until_executors(live, shared_ray, 2)
    # the one that has a place in RayDP's own count dies, and then one that has none there
    for _ in range(2):
        kill_and_wait(executors_of(shared_ray)[:1])
        until_executors(live, shared_ray, 2)
    assert len(told(probe).answers) == 30
    until_executors(live, shared_ray, 1)
    copy_some(cluster_pair, live, "sized")
    assert len(told(start_probe(shared_ray.env, tmp_path, tasks=2, task_s=0)).answers) == 2
    assert host_of(shared_ray) == [host], "one session all the time"
    assert not live.told("Spark is down")
