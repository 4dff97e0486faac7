"""Spark on two nodes: one of them is drained or killed in the middle of its jobs, and each job goes on.

The jobs are the history of lag, rounds of config sync, the proof all the time, and a proof by command. The history is
judged from its table, config sync by looking at the target.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from policies.model import FlowName
from tests.conftest import Pair
from tests.harness.admin import own_configs, set_configs
from tests.harness.eventually import until_equal
from tests.harness.live import LiveMirror
from tests.harness.load import pour
from tests.harness.ray_cluster import RayCluster, ray_cluster
from tests.harness.spark_nodes import HOST, executor_node, executors_by_node, has_master, host_node, processes_on
from tests.integration.test_lag_history import command, produce, remembered, until_kept
from tests.integration.test_spark import READY_S
from tests.integration.test_spark_faults import AGAIN_S
from tests.integration.test_spark_places import SHARED, drain

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.fault, pytest.mark.full]

COUNT, MORE = 500_000, 50
"""Records before the first node goes, so that a proof takes some seconds; and after each."""
SETTINGS = {
    **SHARED,
    "sync.topic.configs.interval.seconds": "5",
    "sync.topic.acls.enabled": "false",
    "raymirror.proof": "on",
    "raymirror.proof.interval.seconds": "2",
}


class Stage:
    """A mirror of one topic on a Ray cluster, all of whose Spark jobs run."""

    def __init__(self, pair: Pair, flow: FlowName, ray: RayCluster, live: LiveMirror, folder: Path) -> None:
        self.ray, self.live = ray, live
        self._pair, self._flow, self._folder = pair, flow, folder
        self._topic = f"remembered-{flow.source}"
        self._copy = f"{flow.source}.{self._topic}"
        self._records = self._takes = 0

    def fill(self) -> None:
        """Copy what is to be proven."""
        asyncio.run(pour(self._pair.source, self._topic, COUNT))
        self._records = COUNT
        self.live.until_whole({str(self._flow): COUNT})

    def take(self, away: Callable[[], None]) -> None:
        """Take something away in the middle of a proof and of a round of configs, and see that every job goes on."""
        self._takes += 1
        retention = {"retention.ms": str(90_000_000 + self._takes)}
        self.until_spark_plans()
        proof = self._start_proof()
        self.live.until(self._proof_runs, "the proof runs", READY_S)
        asyncio.run(set_configs(self._pair.source, self._topic, retention))
        away()
        self._until_copied(retention)
        self._check(proof)
        asyncio.run(produce(self._pair.source, self._topic, MORE))
        self._records += MORE
        until_kept(self.live, self._pair.target, self._flow, self._folder)
        self.live.until(self._is_proven, "all records are proven", AGAIN_S)
        assert self._proof()["differences"] == 0
        self.until_spark_plans()
        asyncio.run(set_configs(self._pair.source, self._topic, {}))
        self._until_copied({})

    def until_spark_plans(self) -> None:
        """Wait for a round of configs that Spark plans, from now on."""
        last_ms = self._configs()["at_ms"]
        self.live.until(
            lambda: self._configs()["by"] == "spark" and self._configs()["at_ms"] > last_ms, "Spark plans", AGAIN_S
        )

    def _configs(self) -> dict[str, Any]:
        found: dict[str, Any] | None = self.live.flow(str(self._flow))["configs"]
        return found or {"by": "", "at_ms": 0}

    def _until_copied(self, wanted: dict[str, str]) -> None:
        async def of_copy() -> dict[str, str]:
            return (await own_configs(self._pair.target, [self._copy]))[self._copy]

        asyncio.run(until_equal(of_copy, wanted))

    def _proof_runs(self) -> bool:
        jobs = self.live.status["spark"]["jobs"]
        return any(job["job"] == "proof" and job["state"] == "running" for job in jobs)

    def _start_proof(self) -> "subprocess.Popen[str]":
        words = ("verify", "mm2.properties", "--again", "--spark", "always", "--json")
        return subprocess.Popen(
            [sys.executable, "-m", "actors", *words],
            env=self.live.env,
            cwd=self._folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _check(self, proof: "subprocess.Popen[str]") -> None:
        """The report of the proof has every record, once."""
        try:
            out, err = proof.communicate(timeout=AGAIN_S)
        finally:
            if proof.poll() is None:
                proof.kill()
                proof.communicate()
        assert proof.returncode == 0, err
        assert "proving on the Spark of mirror" in err
        (report,) = json.loads(out)["flows"]
        (lane,) = report["lanes"]
        assert (report["whole"], report["where"], report["differences"]) == (True, "spark", [])
        assert (lane["records"], lane["proven_from"], lane["proven_to"]) == (self._records, 0, self._records)

    def _proof(self) -> dict[str, Any]:
        found: dict[str, Any] = self.live.status["proofs"][str(self._flow)]
        return found

    def _is_proven(self) -> bool:
        (lane,) = json.loads(command(self.live, "lag", str(self._flow), "--json"))["partitions"]
        return bool(lane["proven_to"] == self._records)


@contextmanager
def staged(flow: FlowName, pair: Pair, folder: Path, nodes: Sequence[float], *, head_java: bool) -> Iterator[Stage]:
    """Run the mirror on nodes with so many CPUs each, and a head without; with `head_java` the host is on the head."""
    with (
        ray_cluster(folder / "ray", nodes, head_java=head_java) as ray,
        remembered(flow, pair, ray, folder, SETTINGS) as live,
    ):
        stage = Stage(pair, flow, ray, live, folder)
        stage.fill()
        yield stage
        live.end()


@pytest.fixture(scope="module")
def stage(cluster_pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    flow, folder = FlowName("spread", "gathered"), tmp_path_factory.mktemp("nodes")
    with staged(flow, cluster_pair, folder, (3, 3, 3), head_java=True) as one:  # each test takes a node away
        yield one


def test_executors_leave_a_node_that_is_drained_while_the_session_stays_unless_a_master_is_there(stage: Stage) -> None:
    stage.until_spark_plans()
    ray, node = stage.ray, executor_node(stage.ray)
    hosts, starts_again = processes_on(ray.head, HOST), has_master(node)

    def drain_it() -> None:
        drain(stage.live, ray.folder, ray.node_id(node))
        ray.until_dead(node)  # by itself, since nothing runs there any more

    stage.take(drain_it)
    assert node.name not in executors_by_node(ray)
    assert (processes_on(ray.head, HOST) == hosts != []) is not starts_again
    assert bool(stage.live.told("is being drained")) is starts_again


def test_executors_of_a_node_that_is_killed_come_back_on_another(stage: Stage) -> None:
    stage.until_spark_plans()
    ray, node = stage.ray, executor_node(stage.ray)
    stage.take(lambda: ray.kill_node(node))
    assert executor_node(ray) is not node


def test_a_host_whose_node_is_killed_comes_back_on_another(cluster_pair: Pair, tmp_path: Path) -> None:
    with staged(FlowName("host-lost", "host-found"), cluster_pair, tmp_path, (3, 3), head_java=False) as stage:
        stage.until_spark_plans()
        node = host_node(stage.ray)
        stage.take(lambda: stage.ray.kill_node(node))
        assert stage.live.told("Spark is down")
        assert host_node(stage.ray) is not node
        assert not stage.live.told("the checkpoint of the lag history is gone")
