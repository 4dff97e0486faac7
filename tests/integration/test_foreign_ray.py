"""Another program's Ray next to raymirror's: commands from a second shell find the mirror and ignore the other Ray."""

import asyncio
from pathlib import Path

import pytest

from deploy.local.cluster import EmbeddedCluster
from tests.harness.admin import create_topics
from tests.harness.foreign_ray import foreign_ray
from tests.harness.load import numbered, produce
from tests.harness.shell import DEADLINE_S, Shell, write_config

pytestmark = [pytest.mark.integration, pytest.mark.ray]

TOPIC, COUNT = "beside", 100


def test_status_and_stop_mean_our_mirror_and_not_the_newest_ray(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    asyncio.run(create_topics(source_cluster, {TOPIC: 1}))
    asyncio.run(produce(source_cluster, TOPIC, 0, numbered(COUNT)))
    shell = Shell(tmp_path)
    run = shell.start("run", str(write_config(tmp_path, source_cluster, target_cluster, TOPIC)))
    try:
        shell.until(lambda status: status["flows"][0]["records"] == COUNT)
        with foreign_ray(shell.env) as foreign:  # the newest on this machine: where `address="auto"` would lead
            shell.until(lambda status: status["flows"][0]["records"] == COUNT)
            stopped = shell("stop")
            assert (stopped.returncode, stopped.stdout) == (0, "stopped\n"), stopped.stderr
            assert run.wait(DEADLINE_S) == 0
            assert foreign.works()
            gone = shell("status")
            assert gone.returncode == 3
            assert "no running mirror" in gone.stderr
    finally:
        run.terminate()
        run.wait(DEADLINE_S)
