"""`raymirror failover` on a real mirror: exact moves of groups, the report, and the way back for groups."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition

from deploy.local.cluster import EmbeddedCluster
from tests.harness import groups as stock
from tests.harness.admin import create_topics
from tests.harness.compare import read_topic
from tests.harness.load import numbered, produce
from tests.harness.operator import Operator
from tests.harness.places import every_checkpoint, read_places, same_place
from tests.harness.shell import DEADLINE_S

pytestmark = [pytest.mark.integration, pytest.mark.ray]

RECORDS = 300


class Scene(Operator):
    """A flow of its own with one topic of two partitions, and the command line beside it."""

    def __init__(self, folder: Path, alias: str, source: EmbeddedCluster, target: EmbeddedCluster) -> None:
        super().__init__(folder, alias, source, target, {"sync.topic.acls.enabled": "true"})
        self.copied = f"{alias}.{self.topic}"

    async def start(self) -> None:
        """Make the topic, fill it, start the mirror and wait until it has copied everything."""
        await create_topics(self.source, {self.topic: 2})
        for partition in range(2):
            await produce(self.source, self.topic, partition, numbered(RECORDS))
        self.shell.start("run", str(self.config))
        await self.until(lambda flow: flow["records"] == 2 * RECORDS and flow["lag_records"] == 0)

    async def commit(self, group: str, offsets: dict[int, int]) -> None:
        """Commit on the source, and wait until the checkpoints mean that place: what it is on the target is told then.

        A checkpoint that comes before that is near, and the command's short patience may end before it.
        """
        await stock.commit(self.source, group, self.topic, offsets)
        here, there = await read_places(self.source, self.topic), await read_places(self.target, self.copied)
        async with asyncio.timeout(DEADLINE_S):
            while True:
                told = {
                    one.partition: one.target_offset
                    for one in await every_checkpoint(self.target, f"{self.alias}.checkpoints.internal", group)
                    if one.source_offset == offsets.get(one.partition)
                }
                if told.keys() == offsets.keys() and all(
                    same_place(here[at], offset, there[at], told[at]) for at, offset in offsets.items()
                ):
                    return
                await asyncio.sleep(0.2)

    async def ask(self, *words: str) -> tuple[int, dict[str, Any]]:
        """Ask for a failover: exit code and answer."""
        done = await asyncio.to_thread(self.shell, "failover", self.flow, *words, "--json")
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    async def stored(self, cluster: EmbeddedCluster, group: str, topic: str) -> dict[int, int | None]:
        """Return what is committed, as a stock client reads it."""
        consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group)
        await consumer.start()
        try:
            return {one: await consumer.committed(KafkaPartition(topic, one)) for one in range(2)}
        finally:
            await consumer.stop()


@pytest.fixture
def scene(source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path, "moving", source_cluster, target_cluster)
    try:
        yield made
    finally:
        made.close()


async def test_consumers_move_and_come_back(scene: Scene) -> None:
    await scene.start()
    await scene.commit("moving-g", {0: 120, 1: RECORDS})
    await scene.commit("moving-busy", {0: 10})
    async with stock.joined(scene.target, "moving-busy", scene.copied):
        code, found = await scene.ask("--timeout", "5")
    await scene.ends()
    assert (code, found["drained"], found["stopped"], found["source"]) == (4, True, True, "")
    assert [(one["drained"], one["source_end"], one["why"]) for one in found["partitions"]] == [(True, RECORDS, "")] * 2
    stood = (await asyncio.to_thread(scene.shell, "status")).stderr
    assert ("lag 0 at 2" in stood, "unknown" in stood, "raymirror resume" in stood) == (True, False, False), stood
    (rpo,) = found["rpo"]
    assert (rpo["records"], rpo["seconds"], rpo["known"]) == (0, 0.0, True)
    unequal = [stand for stand in found["standing"]["stands"] if stand["why"]]
    assert [(one["group"], one["why"]) for one in unequal] == [("moving-busy", "the group has members on the target")]
    (events,) = (await read_topic(scene.target, "raymirror-events.moving.internal")).values()
    assert any(b'"failed_over"' in (event.key or b"") for event in events)
    # a group that may be committed for reads on at the exact next record
    records = await stock.read_from(scene.target, "moving-g", scene.copied, 80)
    assert [one.value.strip() for one in records] == [b"v%d" % number for number in range(120, 200)]
    # and back, after somebody has written behind the copy: nothing is written before it is asked for
    await produce(scene.target, scene.copied, 1, numbered(3))
    code, found = await scene.ask("--back", "--config", str(scene.config))
    rows = {(one["group"], one["partition"]): one for one in found["partitions"]}
    assert code == 0
    assert (rows["moving-g", 0]["source_offset"], rows["moving-g", 0]["stored"]) == (200, 120)
    assert rows["moving-g", 0]["commits"]
    assert rows["moving-g", 1]["settled"]
    (other,) = found["other_writers"]["found"]
    assert (other["target_topic"], other["partition"], other["records"], other["whole"]) == (scene.copied, 1, 3, True)
    assert (found["other_writers"]["stops"], found["other_writers"]["unknown"]) == (True, {})
    code, found = await scene.ask("--back", "--config", str(scene.config), "--apply")
    assert (code, found["failed"], found["committed"]) == (0, {}, 1)
    rows = {(one["group"], one["partition"]): (one["before"], one["committed"]) for one in found["partitions"]}
    assert rows["moving-g", 0] == (120, 200)
    assert await scene.stored(scene.source, "moving-g", scene.topic) == {0: 200, 1: RECORDS}
    records = await stock.read_from(scene.source, "moving-g", scene.topic, RECORDS - 200)
    assert [one.value.strip() for one in records] == [b"v%d" % number for number in range(200, RECORDS)]


@pytest.fixture
def lost(target_cluster: EmbeddedCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """A flow whose source is its own, so that it may go away; its alias is the test's: the target keeps positions."""
    alias = getattr(request, "param", "lost")
    with EmbeddedCluster(alias, tmp_path / alias) as source:
        made = Scene(tmp_path, alias, source, target_cluster)
        try:
            yield made
        finally:
            made.close()


async def test_a_source_that_is_gone(lost: Scene) -> None:
    await lost.start()
    await lost.commit("lost-g", {0: 120, 1: 40})
    await asyncio.to_thread(lost.source.stop)
    await lost.until(lambda flow: flow["unknown_lanes"] == 2)
    failing = await asyncio.to_thread(lost.shell, "status", "--fail-if", "lag_seconds>1000000")
    assert failing.returncode == 1, failing.stdout
    assert "lag_seconds of 2 partitions is not known" in failing.stderr
    assert "lag of 2 of 2 partitions is unknown" in failing.stdout
    code, found = await lost.ask("--timeout", "5")
    ending = await asyncio.to_thread(lost.shell, "status")
    assert (ending.returncode, "does not answer" in ending.stderr) == (3, False), ending.stderr
    assert "mirror lost-there" in ending.stderr
    assert "lost->there" in ending.stderr  # how it stood
    await lost.ends()
    ended = await asyncio.to_thread(lost.shell, "status")
    assert "mirror lost-there ended" in ended.stderr
    assert "lost->there was failed over, and raymirror run" in ended.stderr
    assert "start it again with" not in ended.stderr
    assert (code, found["drained"], found["stopped"]) == (4, False, True)
    assert found["source"]
    assert {"source does not answer" in one["why"] for one in found["partitions"]} == {True}
    (rpo,) = found["rpo"]
    assert (rpo["known"], rpo["records"]) == (False, 0)
    stands = {one["partition"]: one for one in found["standing"]["stands"]}
    assert {"source does not answer" in one["why"] for one in stands.values()} == {True}
    assert {one["stored"] == one["target_offset"] for one in stands.values()} == {True}
    records = await stock.read_from(lost.target, "lost-g", lost.copied, 2 * RECORDS - 160)
    for partition, first in ((0, 120), (1, 40)):
        read = [one.value.strip() for one in records if one.partition == partition]
        assert read == [b"v%d" % number for number in range(first, RECORDS)]


@pytest.mark.parametrize("lost", ["away"], indirect=True)
async def test_a_source_that_was_away_when_the_mirror_was_started(lost: Scene) -> None:
    await lost.start()
    assert (await asyncio.to_thread(lost.shell, "stop")).returncode == 0
    await lost.ends()
    await asyncio.to_thread(lost.source.stop)
    lost.shell.start("run", str(lost.config))
    await lost.until(lambda flow: "no broker" in flow["waiting_for"])
    behind = await asyncio.to_thread(lost.shell, "lag", "--behind")
    assert "away->there: which partitions it copies, and how far behind they are, is not known yet" in behind.stdout
    failing = await asyncio.to_thread(lost.shell, "status", "--fail-if", "unknown>0")
    assert failing.returncode == 1, failing.stdout
    code, found = await lost.ask("--timeout", "5")
    await lost.ends()
    assert (code, found["drained"], found["stopped"], found["undiscovered"]) == (4, False, True, True)
    assert [(one["source_next"], one["records"]) for one in found["partitions"]] == [(RECORDS, -1)] * 2
    ended = await asyncio.to_thread(lost.shell, "status")
    assert "away->there was failed over, and raymirror run" in ended.stderr
    told = await asyncio.to_thread(lost.shell, "events", "--config", str(lost.config))
    assert "an unknown number of records in 2 of 2 partitions not copied" in " ".join(told.stdout.split())
