"""Spark next to a mirror: started when a job needs it, raymirror's code on its executors, ended with the mirror."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import psutil
import pytest

from deploy.local.cluster import EmbeddedCluster
from engine.jobs.runtime.probe import ProbeReport
from tests.conftest import Pair
from tests.harness.admin import create_topics
from tests.harness.live import LiveMirror, write_properties
from tests.harness.load import append, numbered, producer
from tests.harness.ray_cluster import RayCluster
from tests.harness.spark_nodes import processes_on

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]

TOPIC, FLOW = "sparked", "lit->dim"
READY_S = 900.0
"""A probe gives up after ten minutes by itself."""
SETTINGS = {
    "raymirror.spark": "on",
    "raymirror.spark.executors": "1",
    "raymirror.spark.executor.memory.bytes": str(512 * 1024 * 1024),
}


@pytest.fixture
def live(cluster_pair: Pair, shared_ray: RayCluster, tmp_path: Path) -> Iterator[LiveMirror]:
    clusters = {"lit": cluster_pair.source, "dim": cluster_pair.target}
    asyncio.run(create_topics(cluster_pair.source, {TOPIC: 1}))
    settings = {**SETTINGS, "raymirror.config.sync.on": "actor"}  # or Spark starts with the mirror
    config = write_properties(tmp_path / "mm2.properties", clusters, {FLOW: TOPIC}, settings)
    mirror = LiveMirror(tmp_path, config, env=shared_ray.env)
    yield mirror
    mirror.close()


async def produce(cluster: EmbeddedCluster, count: int) -> None:
    async with producer(cluster) as client:
        await append(client, TOPIC, 0, numbered(count))


def start_probe(
    env: Mapping[str, str], folder: Path, tasks: int, task_s: float, *, large: bool = False
) -> "subprocess.Popen[bytes]":
    """Give the mirror's Spark a probe, from a working folder that has none of our code. `large`: with all executors."""
    command = [sys.executable, "-m", "tests.harness.spark_probe", str(tasks), str(task_s), *["large"][:large]]
    return subprocess.Popen(command, env=dict(env), cwd=folder, stdout=subprocess.PIPE)


def told(probe: "subprocess.Popen[bytes]") -> ProbeReport:
    try:
        out, _ = probe.communicate(timeout=READY_S)
    finally:
        if probe.poll() is None:  # else a later test is told of a process that nobody waits for
            probe.kill()
            probe.communicate()
    assert probe.returncode == 0
    return msgspec.json.decode(out.splitlines()[-1], type=ProbeReport)


def processes(ray: RayCluster, words: str) -> list[psutil.Process]:
    """List what runs on the head and has these words in its command."""
    return processes_on(ray.head, words)


def test_spark_beside_a_mirror(cluster_pair: Pair, shared_ray: RayCluster, live: LiveMirror, tmp_path: Path) -> None:
    live.until(lambda: live.status["phase"] == "running", "the mirror runs")
    assert live.status["spark"]["state"] == "idle", "nothing has needed it yet"

    report = told(start_probe(shared_ray.env, tmp_path, tasks=2, task_s=0))
    assert [answer.topic for answer in report.answers] == ["A.probe-0", "A.probe-1"]
    assert all("raymirror-code.zip" in answer.engine for answer in report.answers), "the code that was sent"
    assert {answer.python for answer in report.answers} == {sys.executable}
    live.until(lambda: live.status["spark"]["state"] == "ready" and live.told("Spark is ready"), "ready, and told")

    asyncio.run(produce(cluster_pair.source, 100))
    live.until_whole({FLOW: 100})
    live.end()
    assert not processes(shared_ray, "ray::SparkHostActor")
