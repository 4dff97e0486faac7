"""Each process of Spark killed during a job, on one mirror: it is replaced, and copying continues undisturbed."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.conftest import Pair
from tests.harness.admin import create_topics
from tests.harness.live import LiveMirror, write_properties
from tests.harness.load import append, numbered, producer
from tests.harness.ray_cluster import RayCluster
from tests.harness.ray_node import kill_and_wait
from tests.harness.spark_nodes import executors_on, java_workers
from tests.integration.test_spark import READY_S, SETTINGS, processes, start_probe, told

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.fault, pytest.mark.full]

FLOW = "lively->dull"
AGAIN_S = 600.0
"""A minute until executors are given up, a pause, a start, the job from its beginning: on a machine at its limit."""


@contextmanager
def mirror_of(topic: str, pair: Pair, ray: RayCluster, folder: Path, **settings: str) -> Iterator[LiveMirror]:
    """Run a mirror of one topic with Spark on."""
    asyncio.run(create_topics(pair.source, {topic: 1}))
    clusters = {"lively": pair.source, "dull": pair.target}
    config = write_properties(folder / "mm2.properties", clusters, {FLOW: topic}, {**SETTINGS, **settings})
    live = LiveMirror(folder, config, env=ray.env)
    try:
        live.until(lambda: live.status["phase"] == "running", "the mirror runs")
        yield live
    finally:
        live.close()


def copy_some(pair: Pair, live: LiveMirror, topic: str, count: int = 50) -> None:
    """Append records and wait until they are copied."""

    async def produce() -> None:
        async with producer(pair.source) as client:
            await append(client, topic, 0, numbered(count))

    before = live.flow(FLOW)["records"]
    asyncio.run(produce())
    live.until_whole({FLOW: before + count})


def spark_is(live: LiveMirror, state: str, words: str = "") -> Callable[[], bool]:
    return lambda: live.status["spark"]["state"] == state and words in live.status["spark"]["reason"]


def probe_runs(live: LiveMirror) -> Callable[[], bool]:
    return lambda: any(job["job"] == "probe" and job["state"] == "running" for job in live.status["spark"]["jobs"])


@pytest.fixture(scope="module")
def live(cluster_pair: Pair, shared_ray: RayCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveMirror]:
    with mirror_of("survived", cluster_pair, shared_ray, tmp_path_factory.mktemp("faults")) as running:
        yield running


def host_of(ray: RayCluster) -> list[psutil.Process]:
    return processes(ray, "ray::SparkHostActor")


def driver_of(ray: RayCluster) -> list[psutil.Process]:
    (host,) = host_of(ray)
    return [one for one in host.children(recursive=True) if one.name() == "java"]


def master_of(ray: RayCluster) -> list[psutil.Process]:
    return processes(ray, "ray::RayDPSparkMaster")


def executors_of(ray: RayCluster) -> list[psutil.Process]:
    return executors_on(ray.head)


def app_master_of(ray: RayCluster) -> list[psutil.Process]:
    return java_workers(ray.head, sized=False)


@pytest.mark.parametrize("victims", [executors_of, app_master_of, master_of, driver_of, host_of])
def test_what_is_killed_in_the_middle_of_a_job_is_replaced(
    victims: Callable[[RayCluster], list[psutil.Process]],
    cluster_pair: Pair,
    shared_ray: RayCluster,
    live: LiveMirror,
    tmp_path: Path,
) -> None:
    probe = start_probe(shared_ray.env, tmp_path, tasks=4, task_s=3)
    live.until(probe_runs(live), "it runs", READY_S)
    away, killed = len(live.told("Spark is down")), victims(shared_ray)
    assert len(killed) == 1
    kill_and_wait(killed)
    copy_some(cluster_pair, live, "survived")
    if victims is not executors_of:  # RayDP may start another by itself
        live.until(lambda: len(live.told("Spark is down")) > away, "its end is told", AGAIN_S)
        assert live.status["spark"]["reason"]
        copy_some(cluster_pair, live, "survived")
    live.until(lambda: probe.poll() is not None, "the job ends", AGAIN_S)
    assert len(told(probe).answers) == 4, "what ran is run again"
    live.until(spark_is(live, "ready"), "Spark is ready", AGAIN_S)
    copy_some(cluster_pair, live, "survived")
