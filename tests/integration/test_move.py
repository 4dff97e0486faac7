"""`raymirror move` on real clusters: a group moves exactly, or is refused by name while its offsets change."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition

from actors.cli.main import main
from deploy.local.cluster import EmbeddedCluster
from tests.harness import groups as stock
from tests.harness.admin import create_topics
from tests.harness.load import numbered, produce
from tests.harness.rayless import Rayless

pytestmark = [pytest.mark.integration, pytest.mark.full]

RECORDS = 40
SETTINGS = {"emit.heartbeats.enabled": "false", "heartbeats.replication.enabled": "false"}


@asynccontextmanager
async def assigned(cluster: EmbeddedCluster, group: str, topic: str) -> AsyncIterator[None]:
    """Commit for a group once a second without being a member of it, as consumers with assign() do."""
    consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group, enable_auto_commit=False)
    one = KafkaPartition(topic, 0)

    async def commit() -> None:
        for offset in range(1, RECORDS):
            await consumer.commit({one: offset})
            await asyncio.sleep(1.0)

    await consumer.start()
    try:
        consumer.assign([one])
        async with asyncio.TaskGroup() as tasks:
            committing = tasks.create_task(commit())
            yield
            committing.cancel()
    finally:
        await consumer.stop()


async def test_groups_move_one_by_one(
    source_cluster: EmbeddedCluster,
    target_cluster: EmbeddedCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = Rayless(tmp_path, "leave", source_cluster, target_cluster, SETTINGS)
    await create_topics(source_cluster, {"leave-t": 2, "leave-app-store-changelog": 1})
    for partition in range(2):
        await produce(source_cluster, "leave-t", partition, numbered(RECORDS))

    async def move(*words: str) -> tuple[int, Any]:
        capsys.readouterr()
        given = ["move", "--config", str(world.path), "--json", *words]
        return await asyncio.to_thread(main, given), json.loads(capsys.readouterr().out)

    async def refusal(group: str) -> str:
        code, found = await move(group)
        assert (code, found["moved"]) == (4, False), found
        return ", ".join(one["name"] for one in found["refused"])

    async with world.run():
        await world.until(lambda lanes: sum(lane.records for lane in lanes) >= 2 * RECORDS, "all is copied")
        for group in ("leave-g", "leave-app", "leave-busy", "leave-assigns"):
            await stock.commit(source_cluster, group, "leave-t", {0: 7, 1: RECORDS})
        assert await refusal("leave-nobody") == "no-such-group"
        assert await refusal("leave-app") == "streams-application"
        async with stock.joined(source_cluster, "leave-busy", "leave-t"):
            assert await refusal("leave-busy") == "members-on-source"
        async with assigned(source_cluster, "leave-assigns", "leave-t"):
            assert await refusal("leave-assigns") in ("commits-without-members", "members-on-source")
        code, found = await move("leave-g", "--dry-run")
        assert (code, found["moved"]) == (0, False)
        code, found = await move("leave-g")
        assert (code, found["moved"]) == (0, True), found
        (first,) = await stock.read_from(target_cluster, "leave-g", "leave.leave-t", 1)
        assert (first.partition, first.value) == (0, numbered(RECORDS)[7].value)
        code, listed = await move("--list", "--watch", "0.1")
        parts = {one["group"]: one["part"] for one in listed["groups"]}
        assert (code, parts["leave-g"], parts["leave-busy"]) == (0, "moved", "stopped")
        (topic,) = [one for one in listed["topics"] if one["topic"] == "leave-t"]
        assert (topic["part"], topic["moved"]) == ("consumers-left", 1)
        await stock.commit(source_cluster, "leave-g", "leave-t", {0: 9})
        code, listed = await move("--watch", "0.1")
        assert (code, [one["gone_on"] for one in listed["groups"] if one["group"] == "leave-g"]) == (4, [1])
        code, found = await move("leave-g")
        assert (code, found["moved"]) == (0, True), "the group went on to 9 there, and stands before that here"
        assert (await move("leave-busy"))[0] == 0
        code, found = await move("leave-busy", "--undo")
        assert (code, found["undone"]) == (0, True), found
        await stock.commit(target_cluster, "leave-g", "leave.leave-t", {0: 10})
        code, found = await move("leave-g", "--undo")
        assert (code, [one["name"] for one in found["refused"]]) == (4, ["consumed-on-target"])


async def test_a_streams_application_moves_with_its_topics(
    source_cluster: EmbeddedCluster,
    target_cluster: EmbeddedCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    identity = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    world = Rayless(
        tmp_path, "flows", source_cluster, target_cluster, SETTINGS | {"replication.policy.class": identity}
    )
    group, store = "flows-t-app", "flows-t-app-store-changelog"
    await create_topics(source_cluster, {"flows-t": 1, store: 1})
    for topic in ("flows-t", store):
        await produce(source_cluster, topic, 0, numbered(RECORDS))
    await stock.commit(source_cluster, group, "flows-t", {0: 7})
    async with world.run():
        await world.until(lambda lanes: sum(lane.records for lane in lanes) >= 2 * RECORDS, "all is copied")
        given = ["move", group, "--config", str(world.path), "--json", "--watch", "0.1"]
        code = await asyncio.to_thread(main, given)
    found = json.loads(capsys.readouterr().out)
    assert (code, found["moved"], found["internal_topics"]) == (0, True, [store]), found
    assert any(f"delete STATE_DIR/{group}" in text for text in found["advice"])
    (first,) = await stock.read_from(target_cluster, group, "flows-t", 1)
    assert first.value == numbered(RECORDS)[7].value
