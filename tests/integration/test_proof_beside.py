"""Proof of copy on the Spark of a running mirror: by `verify`, and all the time."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Pair
from tests.harness.admin import create_topics
from tests.harness.live import LiveMirror, write_properties
from tests.harness.load import numbered, produce
from tests.harness.ray_cluster import RayCluster

pytestmark = [pytest.mark.integration, pytest.mark.ray]

TOPIC, FLOW, COPY = "proven-beside", "pat->qed", "pat.proven-beside"
COUNT, PARTITIONS = 200, 2
READY_S = 300.0


@pytest.fixture
def live(cluster_pair: Pair, shared_ray: RayCluster, tmp_path: Path) -> Iterator[LiveMirror]:
    settings = {
        "raymirror.spark": "on",
        "raymirror.spark.executors": "1",
        "raymirror.spark.executor.memory.bytes": str(512 * 1024 * 1024),
        "raymirror.storage": f"file:{tmp_path}/storage",
        "raymirror.progress.interval.seconds": "0",
        "raymirror.proof": "on",
        "raymirror.proof.interval.seconds": "2",
        "raymirror.foreign.writer": "continue",
    }
    clusters = {"pat": cluster_pair.source, "qed": cluster_pair.target}
    asyncio.run(create_topics(cluster_pair.source, {TOPIC: PARTITIONS}))
    config = write_properties(tmp_path / "mm2.properties", clusters, {FLOW: TOPIC}, settings)
    mirror = LiveMirror(tmp_path, config, env=shared_ray.env)
    yield mirror
    mirror.close()


def send(pair: Pair, first: int, count: int) -> None:
    for partition in range(PARTITIONS):
        asyncio.run(produce(pair.source, TOPIC, partition, numbered(count, first=first)))


def command(live: LiveMirror, folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "actors", *words],
        env=live.env,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=READY_S,
    )


def proof(live: LiveMirror) -> dict[str, Any]:
    found: dict[str, Any] = live.status["proofs"][FLOW]
    return found


def proven_to(live: LiveMirror, folder: Path) -> list[int]:
    done = command(live, folder, "lag", FLOW, "--json")
    assert done.returncode == 0, done.stderr
    return [one["proven_to"] for one in json.loads(done.stdout)["partitions"]]


@pytest.mark.full
def test_on_the_spark_of_the_mirror_by_command_and_all_the_time(
    cluster_pair: Pair, live: LiveMirror, tmp_path: Path
) -> None:
    send(cluster_pair, 0, COUNT)
    live.until_whole({FLOW: COUNT * PARTITIONS})
    live.until(lambda: proof(live)["records"] == COUNT * PARTITIONS, "what was copied is proven", READY_S)
    assert (proof(live)["partitions"], proof(live)["differences"], proof(live)["trouble"]) == (PARTITIONS, 0, "")
    assert proven_to(live, tmp_path) == [COUNT] * PARTITIONS
    done = command(live, tmp_path, "status")
    assert f"proof of copy: {PARTITIONS} partitions, 0 differences" in done.stdout

    done = command(live, tmp_path, "verify", "mm2.properties", "--again", "--spark", "always", "--json")
    assert done.returncode == 0, done.stderr
    assert "proving on the Spark of mirror" in done.stderr
    assert "starting a local Spark" not in done.stderr
    (told,) = json.loads(done.stdout)["flows"]
    assert (told["whole"], sum(one["records"] for one in told["lanes"])) == (True, COUNT * PARTITIONS)
    assert told["stored"].startswith(f"file:{tmp_path}/storage")
    done = command(live, tmp_path, "verify", "mm2.properties", "--topics", "no-such-topic")
    assert done.returncode == 2
    assert f"raymirror verify: {FLOW}: nothing can be proven: the flow copies no topic with such a name" in done.stderr

    asyncio.run(produce(cluster_pair.target, COPY, 1, numbered(1, first=9000)))  # a stranger's
    send(cluster_pair, COUNT, 50)
    live.until_whole({FLOW: (COUNT + 50) * PARTITIONS})
    live.until(lambda: live.told("between source offsets"), "the stranger's record is told", READY_S)
    (text,) = live.told("between source offsets")
    assert text.startswith(f"{TOPIC}-1: 1 difference between source offsets {COUNT} and ")
    assert f"the first: extra, {COPY}-1 offset " in text
    live.until(lambda: proof(live)["records"] == (COUNT + 50) * PARTITIONS, "the rest is proven", READY_S)
    assert proof(live)["differences"] == 1
    good, bad = proven_to(live, tmp_path)
    assert (good, bad) == (COUNT + 50, COUNT), "up to the first that differs"
    done = command(live, tmp_path, "verify", "mm2.properties", "--json")
    assert done.returncode == 1, "what differs is not remembered"
    assert "in this process, without Spark" in done.stderr
    (told,) = json.loads(done.stdout)["flows"]
    assert told["where"] == "process"
    assert [(one["kind"], one["partition"]) for one in told["differences"]] == [("extra", 1)]
    live.end()
