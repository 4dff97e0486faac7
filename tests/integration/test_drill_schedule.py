"""A mirror that drills by itself: the schedule, the status and the metrics of a real mirror."""

import asyncio
import subprocess
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from deploy.local.cluster import EmbeddedCluster
from deploy.local.ports import pick_ports
from tests.harness import groups as stock
from tests.harness.admin import create_topics
from tests.harness.load import numbered, produce
from tests.harness.shell import DEADLINE_S, Shell, write_config

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]

RECORDS = 50
WAITS_S = 420.0
"""A time of day that is two minutes ahead, a look once a minute, and the drill itself."""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path)
    yield made
    if made.started is not None and made.started.poll() is None:
        made("stop")
        try:
            made.started.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            made.started.kill()
            made.started.wait()


async def test_a_mirror_drills_at_its_time(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path, shell: Shell
) -> None:
    (port,) = pick_ports(1)
    soon = datetime.now(UTC) + timedelta(minutes=2)
    settings = {
        "raymirror.drill.schedule": f"{soon:%H:%M}",
        "raymirror.metrics.port": str(port),
        "source->target.groups": "sched-.*",
    }
    config = write_config(tmp_path, source_cluster, target_cluster, "sched-t", settings)
    for cluster in (source_cluster, target_cluster):
        await create_topics(cluster, {"sched-t": 1})
    await produce(source_cluster, "sched-t", 0, numbered(RECORDS))
    await stock.commit_alone(source_cluster, "sched-g", "sched-t", {0: 20})
    shell.start("run", str(config))
    waiting = await asyncio.to_thread(
        shell.until, lambda status: bool((status["flows"][0]["drill"] or {}).get("next_ms", -1) > 0)
    )
    next_ms = waiting["flows"][0]["drill"]["next_ms"]
    assert next_ms == int(soon.replace(second=0, microsecond=0).timestamp() * 1000)
    found = await asyncio.to_thread(
        shell.until, lambda status: (status["flows"][0]["drill"] or {}).get("last") is not None, WAITS_S
    )
    drill = found["flows"][0]["drill"]
    assert (drill["last"]["scheduled"], drill["last"]["failed"], drill["trouble"]) == (True, "", "")
    assert (drill["last"]["groups"], drill["last"]["hurts"]) == (1, 0), drill
    assert drill["next_ms"] == next_ms + 86_400_000
    assert "drill: passed" in (await asyncio.to_thread(shell, "status")).stdout
    text = await asyncio.to_thread(_scraped, port)
    assert 'raymirror_drill_passed{flow="source->target"} 1' in text
    assert 'raymirror_drill_interval_seconds{flow="source->target"} 86400' in text


def _scraped(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30.0) as answer:
        return str(answer.read().decode())
