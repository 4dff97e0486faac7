"""`raymirror dr drill` on real clusters: under load, with groups that stand wrong, and killed at each of its steps."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from actors.cli.main import main
from actors.config import config_ref
from actors.drills.process import DrillOrder, drill_apart
from deploy.local.cluster import EmbeddedCluster
from engine.core.mm2.mm2_records import Checkpoint, encode_checkpoint
from engine.core.reports.drill_report import DrillStep
from engine.flow.ports.settings_port import NoAuthorizer
from engine.kafka.admin.settings import KafkaSettings
from engine.services.clients import clients_of, opened
from engine.services.target_view import TargetView
from engine.state.state import state_topic
from policies.sync.acl_sync import Resource
from tests.harness import groups as stock
from tests.harness.admin import admin, create_topics, delete_records
from tests.harness.load import append, numbered, produce, producer
from tests.harness.rayless import Rayless

pytestmark = [pytest.mark.integration]

RECORDS = 60
SETTINGS = {
    "emit.heartbeats.enabled": "false",
    "heartbeats.replication.enabled": "false",
    "replication.factor": "1",
}
KILLED = 9
KILLS = 11
"""Besides those at the border of each step."""
DEADLINE_S = 240.0
Inventory = dict[str, Any]


async def inventory(cluster: EmbeddedCluster, alias: str) -> Inventory:
    """Return the topics and groups of a cluster that have to do with a flow or a drill, with all commits."""
    async with admin(cluster) as client:
        topics = {name for name in await client.list_topics() if alias in name or "drill" in name}
        groups = {row[0] for row in await client.list_consumer_groups() if alias in row[0] or "drill" in row[0]}
        offsets = {group: await client.list_consumer_group_offsets(group) for group in sorted(groups)}
    return {
        "topics": topics,
        "groups": {group: {str(one): at.offset for one, at in rows.items()} for group, rows in offsets.items()},
    }


async def acls(world: Rayless) -> list[set[str]]:
    """Return the ACLs of both clusters."""
    (flow,) = world.config.flows
    clients = clients_of(world.config, flow.name, "test")
    found: list[set[str]] = []
    async with opened(*clients):
        for client in clients:
            try:
                each = [await KafkaSettings(client).acls(resource) for resource in Resource]
            except NoAuthorizer:
                each = []
            found.append({str(one) for some in each for one in some})
    return found


class Scene:
    """A flow with one topic that producers could write to on both clusters."""

    def __init__(self, folder: Path, alias: str, source: EmbeddedCluster, target: EmbeddedCluster, capsys: Any) -> None:
        self.alias, self.source, self.target, self._capsys = alias, source, target, capsys
        self.topic, self.copy = f"{alias}-t", f"{alias}.{alias}-t"
        self.world = Rayless(folder, alias, source, target, SETTINGS)

    async def begin(self) -> None:
        """Create the topic on both clusters, as an operator would, and write to the source."""
        for cluster in (self.source, self.target):
            await create_topics(cluster, {self.topic: 2})
        for partition in range(2):
            await produce(self.source, self.topic, partition, numbered(RECORDS))

    async def copied(self, count: int = 2 * RECORDS) -> None:
        await self.world.until(lambda lanes: sum(lane.records for lane in lanes) >= count, "all is copied")

    async def group(self, name: str, offsets: dict[int, int]) -> None:
        await stock.commit_alone(self.source, f"{self.alias}-{name}", self.topic, offsets)

    async def drill(self, *words: str) -> tuple[int, dict[str, Any]]:
        """Give the command; return its exit code and its JSON."""
        self._capsys.readouterr()
        given = ["dr", "drill", self.world.flow, "--config", str(self.world.path), "--json", *words]
        code = await asyncio.to_thread(main, given)
        return code, json.loads(self._capsys.readouterr().out)

    async def everything(self) -> list[Inventory]:
        """Return what is on both clusters, without the state topic, in which drills are recorded."""
        found = [await inventory(cluster, self.alias) for cluster in (self.source, self.target)]
        for one in found:
            one["topics"].discard(state_topic(self.alias))
        return found

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        """Write to the source until the block ends."""

        async def write(client: Any) -> None:
            written = 0
            while True:
                await append(client, self.topic, written % 2, numbered(50, first=written, size_bytes=100))
                written += 50

        async with producer(self.source) as client, asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(write(client))
            yield
            writing.cancel()


@pytest.fixture
def scene_of(
    source_cluster: EmbeddedCluster,
    target_cluster: EmbeddedCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Any:
    return lambda alias: Scene(tmp_path, alias, source_cluster, target_cluster, capsys)


async def test_a_drill_under_load_passes_and_leaves_nothing(scene_of: Any) -> None:
    scene: Scene = scene_of("rehearse")
    await scene.begin()
    async with scene.world.run():
        await scene.copied()
        await scene.group("middle", {0: 20, 1: 7})
        await scene.group("end", {0: RECORDS})
        await stock.commit_alone(scene.target, "rehearse-b", scene.topic, {0: 0})
        before, rights = await scene.everything(), await acls(scene.world)
        async with scene.load():
            code, found = await scene.drill()
        after = await scene.everything()
    assert (code, found["passed"], found["failed"], found["left"]) == (0, True, "", []), found
    assert [one for one in found["findings"] if one["hurts"]] == []
    assert (found["partitions"], found["groups"], found["consumers"]) == (2, 2, 2)
    assert [one["step"] for one in found["steps"]] == [step.value for step in DrillStep]
    assert after == before
    assert await acls(scene.world) == rights
    async with TargetView(scene.world.config, scene.world.config.flows[0]) as view:
        last = await view.last_drill()
    assert last is not None
    assert last.run_id == found["run_id"]


@pytest.mark.full
async def test_what_would_hurt_is_found(scene_of: Any) -> None:
    scene: Scene = scene_of("hurts")
    await scene.begin()
    async with scene.world.run():
        await scene.copied()
        for name in ("cut", "ahead", "wrong", "fine"):
            await scene.group(name, {0: 20} if name == "cut" else {1: 20})
        await delete_records(scene.target, scene.copy, {0: 30})
        await stock.commit_alone(scene.target, "hurts-ahead", scene.copy, {1: 40})
        await create_topics(scene.target, {"hurts.checkpoints.internal": 1}, configs={"cleanup.policy": "compact"})
        key, value = encode_checkpoint(Checkpoint("hurts-wrong", scene.copy, 1, 20, 35, ""))
        async with producer(scene.target) as client:
            await client.send_and_wait("hurts.checkpoints.internal", value=value, key=key, partition=0)
        before = await scene.everything()
        code, found = await scene.drill()
        assert await scene.everything() == before
        hurts = {(one["name"], one["subject"]) for one in found["findings"] if one["hurts"]}
        assert hurts == {
            ("wrong-record", f"group hurts-cut, {scene.copy}-0"),
            ("group-ahead", f"group hurts-ahead, {scene.copy}-1"),
            ("checkpoint-wrong", f"group hurts-wrong, {scene.copy}-1"),
        }
        assert (code, found["hurts"]) == (4, 3)
        code, found = await scene.drill("--groups", "hurts-fine", "--sample", "1")
        assert (code, found["groups"], found["consumers"], found["hurts"]) == (0, 1, 1, 0), found


@pytest.mark.full
async def test_without_a_mirror_nothing_new_is_copied_and_the_drill_says_so(scene_of: Any) -> None:
    scene: Scene = scene_of("alone")
    await scene.begin()
    async with scene.world.run():
        await scene.copied()
    await produce(scene.source, scene.topic, 0, numbered(5))
    code, found = await scene.drill("--timeout", "3")
    assert code == 4
    assert [(one["name"], one["subject"]) for one in found["findings"] if one["hurts"]] == [
        ("not-drained", f"{scene.topic}-0")
    ]
    assert found["loss"]["records"] == 5


_KILLED_DRILL = """\
import asyncio, os, sys
from pathlib import Path
from engine.config.config import load_config
from engine.services.drill.service import DrillService, DrillWish

def at_step(step):
    print(step.value, flush=True)
    if step.value == sys.argv[2]:
        os._exit(9)

async def drill():
    config = load_config(Path(sys.argv[1]))
    async with DrillService(config, config.flows[0]) as service:
        await service.drill(DrillWish(at_step=at_step))

asyncio.run(drill())
"""


@pytest.mark.full
async def test_a_drill_that_is_killed_at_any_step_is_taken_away(scene_of: Any) -> None:
    scene: Scene = scene_of("killed")
    await scene.begin()
    async with scene.world.run():
        await scene.copied()
        for name in ("a", "b"):
            await scene.group(name, {0: 20, 1: RECORDS})
        code, first = await scene.drill()
        assert code == 0, first
        before = await scene.everything()
        made: set[str] = set()
        for step in DrillStep:
            assert await _killed(scene, step) == KILLED
            now = await scene.everything()
            made |= {name for name in now[1]["groups"] | dict.fromkeys(now[1]["topics"]) if "drill-" in name}
            if step is DrillStep.TAKE_AWAY:
                code, found = await scene.drill()  # the next drill takes it away, too
                assert code == 0, found
            else:
                code, found = await scene.drill("--clean")
                assert (code, found["left"]) == (0, []), (step, found)
            assert await scene.everything() == before, step
        assert any(name.endswith("-killed-a") for name in made)
        assert any(name.endswith(".internal") for name in made)


@pytest.mark.full
async def test_drills_that_are_killed_at_any_moment_under_load_are_taken_away_by_the_next(scene_of: Any) -> None:
    scene: Scene = scene_of("moments")
    await scene.begin()
    async with scene.world.run():
        await scene.copied()
        await scene.group("g", {0: 20, 1: RECORDS})
        before, chance = await scene.everything(), Random(20)
        async with scene.load():
            for _ in range(KILLS):
                process = await _started(scene, "no step")
                async with asyncio.timeout(DEADLINE_S):
                    while (line := await process.stdout.readline()) != b"survey\n":  # behind it, it may make things
                        assert line, "it has ended before that"
                await asyncio.sleep(chance.uniform(0.0, 5.0))
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
            code, found = await scene.drill("--clean")
        assert (code, found["left"]) == (0, []), found
        assert len(found["cleaned"]) <= 1, "each drill takes away what the one before has left"
        assert await scene.everything() == before


async def _killed(scene: Scene, step: DrillStep) -> int:
    process = await _started(scene, step.value)
    async with asyncio.timeout(DEADLINE_S):
        await process.communicate()
    return int(process.returncode)


async def _started(scene: Scene, step: str) -> Any:
    words = "-c", _KILLED_DRILL, str(scene.world.path), step
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return await asyncio.create_subprocess_exec(sys.executable, *words, env=environment, stdout=asyncio.subprocess.PIPE)


@pytest.mark.full
async def test_the_process_of_a_scheduled_drill_stores_its_result(scene_of: Any) -> None:
    scene: Scene = scene_of("apart")
    await scene.begin()
    async with scene.world.run():
        await scene.copied()
        await scene.group("g", {0: 20})
        order = DrillOrder(flow=scene.world.flow, config=config_ref.refer(scene.world.path))
        async with asyncio.timeout(DEADLINE_S):
            assert await drill_apart(order) == ""
        async with TargetView(scene.world.config, scene.world.config.flows[0]) as view:
            last = await view.last_drill()
    assert last is not None
    assert (last.scheduled, last.passed, last.groups) == (True, True, 1)
