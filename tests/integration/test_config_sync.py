"""Configs and ACLs of copies on real clusters: by hand, and by a running mirror."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiokafka.errors import UnknownTopicOrPartitionError

from actors.cli.common import exits
from deploy.local.cluster import EmbeddedCluster, running_clusters
from policies.sync.acl_sync import Binding, Operation, Pattern, Permission, Resource
from tests.harness.admin import create_topics, own_configs, partition_count, set_configs
from tests.harness.eventually import until_equal
from tests.harness.kafka_admin import AUTHORIZER, KafkaAdmin
from tests.harness.live import LiveMirror, write_properties
from tests.harness.ray_cluster import RayCluster
from tests.harness.shell import ROOT

pytestmark = pytest.mark.integration


class Stage(NamedTuple):
    """Two clusters with ACLs, and Kafka's own client of each."""

    clusters: dict[str, EmbeddedCluster]
    source: KafkaAdmin
    target: KafkaAdmin


@pytest.fixture(scope="module")
def stage(java: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Start them."""
    folder = tmp_path_factory.mktemp("acls")
    clusters = {name: EmbeddedCluster(name, folder / name, overrides=AUTHORIZER) for name in ("a", "b")}
    with running_clusters(*clusters.values()):
        source, target = (KafkaAdmin(java, cluster.bootstrap_servers) for cluster in clusters.values())
        yield Stage(clusters, source, target)
        source.close()
        target.close()


def ask(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "actors", *words]
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=180, check=False)


def changes(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Return the planned changes of the one flow."""
    (flow,) = json.loads(done.stdout)["flows"]
    return list(flow["changes"])


async def own(stage: Stage, topic: str) -> dict[str, str]:
    """Return what was set on the target for a topic alone; nothing while its broker has not heard of the topic."""
    try:
        return (await own_configs(stage.clusters["b"], [topic]))[topic]
    except UnknownTopicOrPartitionError:
        return {}


async def has(stage: Stage, topic: str) -> bool:
    """Whether the target has the binding of a topic."""
    return reads(topic) in stage.target.acls()


def by_round(rows: list[dict[str, Any]], name: str, value: str) -> list[tuple[str, str, str, str, str]]:
    """Return what the config and the ACL left in the trail, in the order in which their rounds came."""
    config = ("a.live", "set_config", name, value, "done")
    acl = ("a.live", "add_acl", "ALLOW READ", str(reads("a.live")), "done")
    kinds = [row["change"] for row in rows]
    return [config, acl] if kinds.index("set_config") < kinds.index("add_acl") else [acl, config]


def reads(topic: str) -> Binding:
    return Binding(
        int(Resource.TOPIC),
        topic,
        int(Pattern.LITERAL),
        "User:ann",
        "*",
        int(Operation.READ),
        int(Permission.ALLOW),
    )


async def test_planned_and_applied_by_hand(stage: Stage, tmp_path: Path) -> None:
    source, target = stage.clusters.values()
    await create_topics(source, {"hand-1": 3, "hand-2": 1}, configs={"retention.ms": "7000000"})
    await create_topics(target, {"a.hand-1": 1}, configs={"cleanup.policy": "compact"})
    stage.source.add_acls([reads("hand-1")])
    config = str(write_properties(tmp_path / "mm2.properties", stage.clusters, {"a->b": "hand-.*"}))
    planned = ask(tmp_path, "plan", config, "--json")
    assert planned.returncode == exits.CHANGES, planned.stderr
    kinds = [one["change"] for one in changes(planned)]
    assert kinds == ["grow_topic", "create_topic", "set_config", "add_acl"]
    await until_equal(lambda: own(stage, "a.hand-1"), {"cleanup.policy": "compact"})
    assert reads("a.hand-1") not in stage.target.acls()
    applied = ask(tmp_path, "apply", config)
    assert applied.returncode == exits.OK, applied.stdout + applied.stderr
    assert "4 changes done, 0 failed" in applied.stdout
    await until_equal(lambda: own(stage, "a.hand-1"), {"cleanup.policy": "compact", "retention.ms": "7000000"})
    await until_equal(lambda: own(stage, "a.hand-2"), {"retention.ms": "7000000"})
    assert await partition_count(target, "a.hand-1") == 3
    await until_equal(lambda: has(stage, "a.hand-1"), True)
    again = ask(tmp_path, "plan", config)
    assert again.returncode == exits.OK, again.stdout
    assert "nothing to do" in again.stdout
    assert "set on the copy only, left as it is: a.hand-1: cleanup.policy=compact" in again.stdout


@pytest.mark.ray
async def test_a_running_mirror_keeps_them_in_step(stage: Stage, shared_ray: RayCluster, tmp_path: Path) -> None:
    source, target = stage.clusters.values()
    await create_topics(source, {"live": 1}, configs={"segment.bytes": "2000000"})
    settings = {
        "sync.topic.configs.interval.seconds": "1",
        "sync.topic.acls.interval.seconds": "1",
        "raymirror.storage": f"file:{tmp_path / 'storage'}",
        "use.defaults.from": "source",  # reaches nothing at top level: as in MM2, with a warning
    }
    config = write_properties(tmp_path / "mm2.properties", stage.clusters, {"a->b": "live"}, settings)
    live = LiveMirror(tmp_path, config, env=shared_ray.env)

    async def until_told(*words: str) -> None:
        await asyncio.to_thread(live.until, lambda: all(live.told(one) for one in words), f"told: {words}")

    try:
        await until_told("target topic a.live now has 1 partition")
        await until_equal(lambda: own(stage, "a.live"), {"segment.bytes": "2000000"})
        await set_configs(source, "live", {"segment.bytes": "2000000", "retention.ms": "8000000"})
        stage.source.add_acls([reads("live")])
        await until_told("configs of a.live changed: retention.ms=8000000", "a.live: ACLs added on b: ALLOW READ")
        await until_equal(lambda: has(stage, "a.live"), True)
        copied = {"segment.bytes": "2000000", "retention.ms": "8000000"}
        await set_configs(target, "a.live", {**copied, "cleanup.policy": "compact"})
        await set_configs(source, "live", {"retention.ms": "8000000"})
        await until_told("configs of a.live changed: segment.bytes removed")
        await until_equal(lambda: own(stage, "a.live"), {"retention.ms": "8000000", "cleanup.policy": "compact"})
        flow = live.flow("a->b")
        assert flow["configs"]["changes"] >= 3, live.describe()
        assert flow["configs"]["failures"] == 0, live.describe()
        live.end()
        story = ask(tmp_path, "audit", str(config), "live", "--json")
        assert story.returncode == exits.OK, story.stderr
        rows = [json.loads(line) for line in story.stdout.splitlines()]
        assert [(row["target"], row["change"], row["name"], row["after"], row["outcome"]) for row in rows] == [
            ("a.live", "create_topic", "partitions", "1", "done"),
            *by_round(rows, "retention.ms", "8000000"),
            ("a.live", "drop_config", "segment.bytes", "", "done"),
        ]
        assert all(row["who"].startswith("mirror ") and row["why"] for row in rows)
        assert "segment.bytes 2000000 -> the default" in ask(tmp_path, "audit", str(config), "a.live").stdout
    finally:
        live.close()
