"""`ray job submit` on a cluster of several nodes with token authentication: submitted, stopped, resubmitted, changed.

The tests are steps of one story on one cluster and run in order. The code comes from the submitted folder.
"""

import asyncio
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from actors.demo.topics import create_topics
from deploy.local.cluster import EmbeddedCluster
from tests.harness.ray_cluster import RayCluster, ray_cluster
from tests.harness.shell import ROOT, Shell, copied, write_config
from tests.integration.test_run_command import produce, same

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]

RUNTIME = json.dumps({"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": "60"}})


class Story:
    """A cluster, a folder that is submitted to it, and a shell beside it."""

    def __init__(self, cluster: RayCluster, folder: Path, source: EmbeddedCluster, target: EmbeddedCluster) -> None:
        self.cluster, self.source, self.target = cluster, source, target
        self.folder = folder / "submitted"
        self.folder.mkdir()
        for package in ("actors", "engine", "policies", "deploy"):
            shutil.copytree(ROOT / package, self.folder / package, ignore=shutil.ignore_patterns("__pycache__"))
        self.shell = Shell(folder)
        self.shell.env |= {key: value for key, value in cluster.env.items() if key != "PYTHONPATH"}
        self.shell.env["RAY_ADDRESS"] = cluster.address
        self.before: dict[str, Any] = {}

    def submit(self, job: str, topics: str, settings: Mapping[str, str] | None = None) -> None:
        """Submit the mirror of some topics."""
        write_config(self.folder, self.source, self.target, topics, settings)
        self.cluster.ray(
            *("job", "submit", "--submission-id", job, "--no-wait", "--working-dir", str(self.folder)),
            *("--runtime-env-json", RUNTIME, "--", "python", "-m", "actors", "run", "mm2.properties", "--name", "told"),
        )

    def logs(self, job: str) -> str:
        """Give what a job printed."""
        return self.cluster.ray("job", "logs", job)


@pytest.fixture(scope="module")
def story(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("jobs")
    with ray_cluster(folder, [1, 1], token=True, dashboard=True) as cluster:
        yield Story(cluster, folder, source_cluster, target_cluster)


def owners(status: dict[str, Any]) -> dict[str, tuple[str, int]]:
    """Give set and epoch of every partition."""
    return {f"{lane['lane']}": (lane["set_id"], lane["epoch"]) for lane in status["lanes"]}


def test_a_submitted_job_copies(story: Story) -> None:
    asyncio.run(create_topics(story.source.bootstrap_servers, {"job-a": 2, "job-b": 2}))
    produce(story.source, "job-a", 1000)
    produce(story.source, "job-b", 500)
    story.submit("first", "job-a")
    status = story.shell.until(copied(1000))
    assert status["config_path"] == "mm2.properties", "every node finds it in its own copy of the folder"
    assert same(story.source, story.target, "job-a")


def test_a_stopped_job_drains_and_wants_to_run_still(story: Story) -> None:
    story.cluster.ray("job", "stop", "first")
    done = story.shell("status")
    assert (done.returncode, "no running mirror" in done.stderr) == (3, True), story.logs("first")


def test_a_resubmitted_job_goes_on(story: Story) -> None:
    produce(story.source, "job-a", 1000, first=1000)
    story.submit("second", "job-a")
    story.before = story.shell.until(copied(2000))
    assert same(story.source, story.target, "job-a")


def test_a_second_job_of_the_same_configuration_attaches(story: Story) -> None:
    story.submit("third", "job-a")
    story.shell.until(lambda status: "joined" in story.logs("third"))
    story.cluster.ray("job", "stop", "third")
    assert "continues" in story.logs("third")
    assert owners(story.shell.status()) == owners(story.before), "who leaves while others follow ends nothing"


def test_a_topic_more_moves_no_other_set(story: Story) -> None:
    story.submit("fourth", "job-a, job-b")
    after = story.shell.until(copied(2500))
    assert same(story.source, story.target, "job-b")
    moved = {lane: owner for lane, owner in owners(after).items() if "job-a" in lane}
    assert moved == owners(story.before)
    assert [copier["copier_id"] for copier in after["copiers"]] == [
        copier["copier_id"] for copier in story.before["copiers"]
    ]
    assert "took over from" in story.logs("fourth")


def test_a_restart_replaces_the_copiers_one_by_one(story: Story) -> None:
    before = {copier["copier_id"] for copier in story.shell.status()["copiers"]}
    assert story.shell("restart", "source->target").returncode == 0
    after = story.shell.until(lambda status: not before & {copier["copier_id"] for copier in status["copiers"]})
    assert after["flows"][0]["unknown_lanes"] >= 0
    produce(story.source, "job-a", 1000, first=2000)
    story.shell.until(copied(3500))
    assert same(story.source, story.target, "job-a")


def test_a_node_is_emptied_before_it_goes(story: Story) -> None:
    node = story.shell.status()["copiers"][0]["node"]
    done = story.shell("drain", "--node", node, "--timeout", "60")
    assert (done.returncode, done.stdout.strip()) == (0, f"node {node} has no copiers"), done.stderr
    story.shell.until(lambda status: {copier["node"] for copier in status["copiers"]} not in ({node}, set()))
    produce(story.source, "job-b", 500, first=500)
    story.shell.until(copied(4000))
    assert same(story.source, story.target, "job-b")


def test_only_stop_ends_it_for_good(story: Story) -> None:
    done = story.shell("stop")
    assert (done.returncode, done.stdout.strip()) == (0, "stopped"), done.stderr
    assert story.shell("status").returncode == 3
