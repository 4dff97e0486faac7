"""What Spark must live through: an executor killed in the middle of a job, RayDP's master too, nodes without Java."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import Pair
from tests.harness.admin import create_topics
from tests.harness.live import LiveMirror, write_properties
from tests.harness.load import append, numbered, producer
from tests.harness.ray_cluster import RayCluster, ray_cluster
from tests.harness.ray_node import kill_and_wait
from tests.integration.test_spark import READY_S, SETTINGS, processes, start_probe, told

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]

FLOW = "lively->dull"


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


def copy_some(pair: Pair, live: LiveMirror, topic: str, count: int) -> None:
    """Append records and wait until they are copied."""

    async def produce() -> None:
        async with producer(pair.source) as client:
            await append(client, topic, 0, numbered(count))

    before = live.flow(FLOW)["records"]
    asyncio.run(produce())
    live.until_whole({FLOW: before + count})


def spark_is(live: LiveMirror, state: str, words: str = "") -> Callable[[], bool]:
    return lambda: live.status["spark"]["state"] == state and words in live.status["spark"]["reason"]


def test_an_executor_killed_in_the_middle_of_a_job_is_replaced(
    cluster_pair: Pair, shared_ray: RayCluster, tmp_path: Path
) -> None:
    with mirror_of("survived", cluster_pair, shared_ray, tmp_path) as live:
        probe = start_probe(shared_ray.env, tmp_path, tasks=4, task_s=3)
        live.until(lambda: any(job["state"] == "running" for job in live.status["spark"]["jobs"]), "it runs", READY_S)
        # the raylet has these words in its command too
        kill_and_wait([one for one in processes(shared_ray, "DefaultWorker") if one.name() == "java"])
        assert len(told(probe).answers) == 4, "RayDP starts another, or after a minute the host is replaced"
        copy_some(cluster_pair, live, "survived", 50)


def test_a_session_whose_master_died_is_replaced(cluster_pair: Pair, shared_ray: RayCluster, tmp_path: Path) -> None:
    with mirror_of("headless", cluster_pair, shared_ray, tmp_path) as live:
        assert len(told(start_probe(shared_ray.env, tmp_path, tasks=1, task_s=0)).answers) == 1
        kill_and_wait(processes(shared_ray, "ray::RayDPSparkMaster"))
        live.until(lambda: live.told("Spark is away"), "its end is told", READY_S)
        copy_some(cluster_pair, live, "headless", 50)
        assert len(told(start_probe(shared_ray.env, tmp_path, tasks=1, task_s=0)).answers) == 1


def test_nodes_without_java_refuse_spark_and_live_on(cluster_pair: Pair, tmp_path: Path) -> None:
    with ray_cluster(tmp_path / "ray", head_cpus=2, head_java=False) as ray:
        settings = {"raymirror.storage": f"file:{tmp_path}/kept", "raymirror.storage.shared": "true"}
        with mirror_of("dry", cluster_pair, ray, tmp_path, **settings) as live:
            probe = start_probe(ray.env, tmp_path, tasks=1, task_s=0)
            live.until(spark_is(live, "refused", "no node of the Ray cluster was started with Java"), "it is refused")
            copy_some(cluster_pair, live, "dry", 50)
            assert ray.head.only("raylet").is_running()
            ray.add_node(cpus=2)
            assert len(told(probe).answers) == 1, "what waited runs where Java is"
            live.until(spark_is(live, "ready"), "it is ready")
            assert ray.head.only("raylet").is_running()
            copy_some(cluster_pair, live, "dry", 50)
