"""Config sync in a mirror that runs Spark: what is changed at the source arrives, and the trail tells the story."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deploy.local.cluster import Cluster
from tests.conftest import Pair
from tests.harness.admin import create_topics, own_configs, set_configs
from tests.harness.eventually import until_equal
from tests.harness.live import LiveMirror, write_properties
from tests.harness.ray_cluster import RayCluster
from tests.harness.shell import Shell
from tests.integration.test_spark import SETTINGS, start_probe, told

pytestmark = [pytest.mark.integration, pytest.mark.ray]

EVERY_S = 20
SLOW_S = 20
"""What a machine that does much else may add to the interval."""
CONFIGS = {"sync.topic.configs.interval.seconds": str(EVERY_S), "sync.topic.acls.enabled": "false"}


def settings(folder: Path) -> dict[str, str]:
    return {**SETTINGS, **CONFIGS, "raymirror.storage": f"file:{folder / 'kept'}", "raymirror.storage.shared": "true"}


async def changed(source: Cluster, topic: str, **configs: str) -> float:
    """Make these the topic's own; return the Unix time at which they were."""
    await set_configs(source, topic, {name.replace("_", "."): value for name, value in configs.items()})
    return time.time()


async def until_own(target: Cluster, copy: str, **configs: str) -> None:
    wanted = {name.replace("_", "."): value for name, value in configs.items()}

    async def own() -> dict[str, str]:
        return (await own_configs(target, [copy]))[copy]

    await until_equal(own, wanted)


def drive(pair: Pair, topic: str, copy: str) -> list[float]:
    """Give the topic a config, and take it away again; return when each was done at the source."""

    async def driven() -> list[float]:
        given_s = await changed(pair.source, topic, retention_ms="8000000")
        await until_own(pair.target, copy, retention_ms="8000000")
        taken_s = await changed(pair.source, topic)
        await until_own(pair.target, copy)
        return [given_s, taken_s]

    return asyncio.run(driven())


def check(rows: list[dict[str, Any]], copy: str, done_s: list[float], partitions: int = 1) -> None:
    """The trail has what was done, in order, by whom and why, each change within one interval of its cause."""
    assert [(row["target"], row["change"], row["name"], row["before"], row["after"]) for row in rows] == [
        (copy, "create_topic", "partitions", "", str(partitions)),
        (copy, "set_config", "retention.ms", "604800000", "8000000"),
        (copy, "drop_config", "retention.ms", "8000000", ""),
    ]
    assert all(row["who"].startswith("mirror ") and row["outcome"] == "done" for row in rows)
    assert [row["why"] for row in rows[1:]] == [
        "the source topic has it of its own",
        "it was taken away on the source",
    ]
    waits_s = [row["at_ms"] / 1000 - at_s for row, at_s in zip(rows[1:], done_s, strict=True)]
    assert all(wait_s < EVERY_S + SLOW_S for wait_s in waits_s), waits_s


def trail(shell: Callable[..., Any], config: Path, topic: str) -> list[dict[str, Any]]:
    done = shell("audit", str(config), topic, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_config_changed_at_the_source_arrives_within_one_interval(
    cluster_pair: Pair, shared_ray: RayCluster, tmp_path: Path
) -> None:
    asyncio.run(create_topics(cluster_pair.source, {"tuned": 1}))
    clusters = {"brisk": cluster_pair.source, "calm": cluster_pair.target}
    config = write_properties(tmp_path / "mm2.properties", clusters, {"brisk->calm": "tuned"}, settings(tmp_path))
    live = LiveMirror(tmp_path, config, env=shared_ray.env)
    try:
        live.until(lambda: live.flow("brisk->calm")["lanes"] == 1, "there is a copy")
        assert len(told(start_probe(shared_ray.env, tmp_path, tasks=1, task_s=0)).answers) == 1
        live.until(lambda: live.status["spark"]["state"] == "ready", "Spark runs")
        done_s = drive(cluster_pair, "tuned", "brisk.tuned")
        live.until(lambda: live.flow("brisk->calm")["configs"]["changes"] == 2, "both changes are counted")
        live.end()
        check(trail(Shell(tmp_path), config, "tuned"), "brisk.tuned", done_s)
    finally:
        live.close()
