"""A backlog makes the fleet grow on an autoscaled cluster, and shrink afterwards; every decision has its reason.

The target's quota lets each copier write one megabyte a second, so that more copiers help.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from deploy.local.cluster import EmbeddedCluster
from tests.harness.admin import create_topics
from tests.harness.fake_cloud import fake_cloud
from tests.harness.shell import Shell, write_config

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]

RECORDS, RECORD_BYTES = 50_000, 4_000
QUOTA = 1024 * 1024
EXTRA = """
tasks.max = 3
raymirror.target.drain.seconds = 20
raymirror.shrink.after.seconds = 15
"""


@pytest.fixture
def narrow(target_cluster: EmbeddedCluster) -> Any:
    """A target that lets every client id write a megabyte a second."""
    quota = ("--bootstrap-server", target_cluster.bootstrap_servers, "--alter", "--entity-type", "clients")
    tool = "kafka.admin.ConfigCommand"
    target_cluster.tool(tool, *quota, "--entity-default", "--add-config", f"producer_byte_rate={QUOTA}")
    yield target_cluster
    target_cluster.tool(tool, *quota, "--entity-default", "--delete-config", "producer_byte_rate")


def test_a_backlog_grows_the_fleet_and_calm_shrinks_it(
    source_cluster: EmbeddedCluster, narrow: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.harness.shell.DEADLINE_S", 600.0)
    asyncio.run(create_topics(source_cluster, {"scaled": 6}))
    source_cluster.tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", "scaled", "--num-records", str(RECORDS), "--record-size", str(RECORD_BYTES), "--throughput", "-1"),
        *("--command-property", f"bootstrap.servers={source_cluster.bootstrap_servers}"),
    )
    config = write_config(tmp_path, source_cluster, narrow, "scaled")
    config.write_text(config.read_text() + EXTRA)
    with fake_cloud(tmp_path / "cloud", cpus=1) as cloud:
        shell = Shell(tmp_path)
        shell.env |= {key: value for key, value in cloud.env.items() if key != "PYTHONPATH"}
        run = shell.start("run", str(config), "--name", "scaled")
        try:
            shell.until(lambda status: len(_ready(status)) == 3)
            assert len(cloud.nodes()) >= 3, "a copier is a CPU, so each brought a node"
            done = shell.until(lambda status: status["flows"][0]["lag_records"] == 0 and bool(_ready(status)))
            assert sum(lane["source_next"] for lane in done["lanes"]) == RECORDS
            calm = shell.until(lambda status: len(status["copiers"]) == 1)
            cloud.until_nodes(max(1, cloud.fewest))
            said = [event["text"] for event in calm["events"] if event["text"].startswith("copiers: ")]
            assert any("drains in" in text or "does not drain" in text for text in said), said
            assert any("3 -> 2 copiers" in text for text in said), said
            assert any("2 -> 1 copier" in text for text in said), said
            assert shell("stop").returncode == 0, json.dumps(said)
        finally:
            run.terminate()
            run.wait(60)


def _ready(status: dict[str, Any]) -> list[dict[str, Any]]:
    return [copier for copier in status["copiers"] if copier["state"] == "ready" and copier["set_ids"]]
