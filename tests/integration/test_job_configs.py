"""A mirror with Spark on, by `ray job submit`: a changed config arrives, and any shell reads the audit trail."""

import asyncio
from pathlib import Path

import pytest

from actors.demo.topics import create_topics
from tests.conftest import Pair
from tests.harness.ray_cluster import ray_cluster
from tests.harness.shell import copied
from tests.integration.test_job_submit import Story
from tests.integration.test_run_command import produce, same
from tests.integration.test_spark import READY_S
from tests.integration.test_spark_config_sync import check, drive, settings, trail

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]

TOPIC = "job-tuned"
COPY = f"source.{TOPIC}"
TOLD = ("retention.ms 604800000 -> 8000000", "retention.ms 8000000 -> the default", "it was removed on the source")


def test_a_config_changed_at_the_source_arrives_in_a_submitted_mirror(cluster_pair: Pair, tmp_path: Path) -> None:
    asyncio.run(create_topics(cluster_pair.source.bootstrap_servers, {TOPIC: 2}))
    produce(cluster_pair.source, TOPIC, 1000)
    with ray_cluster(tmp_path / "ray", [1, 1], token=True, dashboard=True) as ray:
        story = Story(ray, tmp_path, *cluster_pair)
        story.submit("tuning", TOPIC, settings(tmp_path))
        story.shell.until(copied(1000))
        # The history of lag runs all the time: it has Spark started, on executors of the job's own cluster.
        story.shell.until(lambda status: status["spark"]["state"] == "ready", READY_S)
        until_ms = drive(cluster_pair, TOPIC, COPY, story.shell.status)
        story.shell.until(lambda status: status["flows"][0]["configs"]["changes"] == 2)
        assert same(cluster_pair.source, cluster_pair.target, TOPIC)
        assert story.shell("stop").returncode == 0
        check(trail(story.shell, story.folder / "mm2.properties", TOPIC), COPY, until_ms, partitions=2)
        drawn = story.shell("audit", str(story.folder / "mm2.properties"), TOPIC).stdout
        assert [words for words in TOLD if words not in drawn] == [], drawn
