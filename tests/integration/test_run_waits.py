"""`raymirror run` while its source is unreachable: it waits, gives the reason, and starts when the source answers."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.cluster import EmbeddedCluster
from tests.harness.admin import create_topics
from tests.harness.load import numbered, produce
from tests.harness.shell import DEADLINE_S, Shell, copied

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]

RECORDS = 100
START_S = 420.0
"""For a Ray of its own to start, on a machine that does much else."""


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[EmbeddedCluster, EmbeddedCluster]]:
    """Two clusters that may go away."""
    with (
        EmbeddedCluster("waits", tmp_path / "source") as source,
        EmbeddedCluster("there", tmp_path / "target") as target,
    ):
        yield source, target


def tells(kind: str) -> Callable[[dict[str, Any]], bool]:
    return lambda status: any(event["kind"] == kind for event in status["events"])


@pytest.mark.parametrize("absent", [("waits",), ("waits", "there")], ids=["source", "both"])
async def test_it_begins_when_its_clusters_are_there(
    absent: tuple[str, ...], pair: tuple[EmbeddedCluster, EmbeddedCluster], tmp_path: Path
) -> None:
    source, target = pair
    await create_topics(source, {"waits-t": 1})
    await produce(source, "waits-t", 0, numbered(RECORDS))
    config, shell = tmp_path / "mm2.properties", Shell(tmp_path)
    config.write_text(
        "clusters = waits, there\n"
        f"waits.bootstrap.servers = {source.bootstrap_servers}\n"
        f"there.bootstrap.servers = {target.bootstrap_servers}\n"
        "waits->there.enabled = true\n"
        "waits->there.topics = waits-t\n"
        "replication.factor = 1\n"
        "offset.storage.replication.factor = 1\n"
        "offset-syncs.topic.replication.factor = 1\n"
        "emit.heartbeats.enabled = false\n"
        "heartbeats.replication.enabled = false\n"
    )
    gone = [cluster for cluster in pair if cluster.name in absent]
    for cluster in gone:
        await asyncio.to_thread(cluster.stop)
    started = shell.start("run", str(config))
    try:
        status = await asyncio.to_thread(shell.until, lambda status: status["phase"] == "waiting", START_S)
        assert "cannot connect" in status["flows"][0]["waiting_for"]
        assert tells("flow_troubled")(status)
        said = (tmp_path / "run.log").read_text()
        for cluster in gone:
            place = f"{config}:{2 + pair.index(cluster)}: {cluster.name}.bootstrap.servers"
            away = f"warning: {place}: no broker of cluster {cluster.name!r} answers: {cluster.bootstrap_servers}"
            assert away in said
        for cluster in gone:
            await asyncio.to_thread(cluster.restart, cluster.brokers[0])
        status = await asyncio.to_thread(shell.until, copied(RECORDS), START_S)
        assert status["phase"] == "running"
        recovered = await asyncio.to_thread(shell.until, tells("flow_recovered"), START_S)
        assert "topics can be discovered again, after" in next(
            event["text"] for event in recovered["events"] if event["kind"] == "flow_recovered"
        )
    finally:
        await asyncio.to_thread(shell, "stop")
        await asyncio.to_thread(started.wait, DEADLINE_S)
