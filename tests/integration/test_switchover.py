"""A switchover on real clusters: under load, with a driver that is killed before each step, and taken back."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from actors.cli.dr.operating import read
from deploy.local.cluster import EmbeddedCluster
from engine.flow.operations.errors import OperationRefused
from engine.services.dr.switchover.build import SwitchoverChoices
from policies.dr.operation_steps import SWITCHOVER, FlowSide
from policies.dr.operations import DrOperation, OperationState
from policies.model import TopicPartition
from tests.harness import groups
from tests.harness.admin import create_topics
from tests.harness.compare import read_topic
from tests.harness.eventually import until, until_equal
from tests.harness.load import append, numbered, produce, producer
from tests.harness.switching import CopierControl, DriverKilled, SwitchoverStage, copying, killed_before

pytestmark = [pytest.mark.integration]

IDENTITY = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}
CHOICES = SwitchoverChoices(fence="command", timeout_s=120.0)
BEFORE, AFTER = 60, 20


class Writer:
    """Appends numbered records to a topic until the gate is closed, as an application would that is fenced."""

    def __init__(self, cluster: EmbeddedCluster, topic: str, gate: Path) -> None:
        self._cluster, self._topic, self._gate = cluster, topic, gate
        self.count = 0

    async def run(self) -> None:
        """Write until the gate is closed."""
        async with producer(self._cluster) as client:
            while not self._gate.exists():
                await append(client, self._topic, self.count % 2, numbered(1, first=self.count))
                self.count += 1
                await asyncio.sleep(0.01)


@asynccontextmanager
async def written(cluster: EmbeddedCluster, topic: str, gate: Path) -> AsyncIterator[Writer]:
    """Write while the block runs; the gate ends it."""
    writer = Writer(cluster, topic, gate)
    task = asyncio.create_task(writer.run())
    try:
        await until(lambda: writer.count >= BEFORE, "records before the switchover")
        yield writer
        await task
    finally:
        task.cancel()


async def keys(cluster: EmbeddedCluster, topic: str) -> dict[int, list[bytes | None]]:
    """Read the keys of every partition, in order."""
    return {number: [one.key for one in rows] for number, rows in (await read_topic(cluster, topic)).items()}


async def counts(cluster: EmbeddedCluster, topic: str) -> dict[int, int]:
    """Count the records of every partition."""
    return {number: len(found) for number, found in (await keys(cluster, topic)).items()}


async def assert_both(stage: SwitchoverStage, topic: str, source: EmbeddedCluster, target: EmbeddedCluster) -> None:
    """Write to the target, copy back, and compare: every record once on both sides, in order."""
    reverse = stage.found.reverse
    there = await keys(target, topic)
    await produce(target, topic, 0, numbered(AFTER, first=1_000_000))
    wanted = await keys(target, topic)
    assert {number: len(rows) for number, rows in wanted.items()} == {0: len(there[0]) + AFTER, 1: len(there[1])}
    async with copying(reverse.config, reverse.flow):
        await until_equal(lambda: keys(source, topic), wanted)
    assert await keys(source, topic) == await keys(target, topic) == wanted


async def test_a_switchover_turns_the_direction_and_loses_nothing(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    stage = SwitchoverStage(tmp_path, "turned", source_cluster, target_cluster, IDENTITY)
    await create_topics(source_cluster, {"turned-t": 2})
    await produce(source_cluster, "turned-t", 0, numbered(BEFORE))
    await groups.commit(source_cluster, "turned-g", "turned-t", {0: 17})
    async with copying(stage.found.config, stage.found.flow) as copier:
        operation = await stage.start(CopierControl(copier), CHOICES)
    assert operation.state is OperationState.FINISHED
    assert (tmp_path / "gate.topics").read_text() == "turned-t\n"
    (record,) = await groups.read_from(target_cluster, "turned-g", "turned-t", 1)
    assert record.key == numbered(1, first=17)[0].key
    await assert_both(stage, "turned-t", source_cluster, target_cluster)


@pytest.mark.full
@pytest.mark.parametrize("policy", [IDENTITY, {}], ids=["identity", "default"])
async def test_the_driver_is_killed_before_each_step_under_load(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path, policy: dict[str, str]
) -> None:
    alias = f"killed-{'i' if policy else 'd'}"
    topic, copied = f"{alias}-t", f"{alias}-t" if policy else f"{alias}.{alias}-t"
    stage = SwitchoverStage(tmp_path, alias, source_cluster, target_cluster, policy)
    await create_topics(source_cluster, {topic: 2})
    if not policy:
        await create_topics(target_cluster, {topic: 2})
        await produce(target_cluster, topic, 1, numbered(3))
    await produce(source_cluster, topic, 0, numbered(BEFORE, first=500_000))
    await groups.commit(source_cluster, f"{alias}-g", topic, {0: 17, 1: 0})
    async with copying(stage.found.config, stage.found.flow) as copier:
        control = CopierControl(copier)
        async with written(source_cluster, topic, stage.gate) as writer:
            operation = await killed_at_each_step(stage, control)
    assert operation.state is OperationState.FINISHED
    assert all(one.tries == 1 for one in operation.steps)  # each was killed before it had begun
    found = await keys(source_cluster, topic)
    assert await keys(target_cluster, copied) == found
    assert sum(map(len, found.values())) == writer.count + BEFORE
    drained = operation.step("drain")
    assert drained is not None
    assert drained.facts["partitions"] == 2
    (record,) = await groups.read_from(target_cluster, f"{alias}-g", copied, 1)
    assert record.key in (found[0][17], found[1][0])
    if policy:
        await assert_both(stage, topic, source_cluster, target_cluster)
        return
    # the target's own topic is copied from its end on, and the group starts there as well
    positions = operation.step("positions")
    assert positions is not None
    assert positions.facts["group_starts"] == 2
    await produce(target_cluster, topic, 0, numbered(AFTER, first=1_000_000))
    reverse = stage.found.reverse
    async with copying(reverse.config, reverse.flow):
        await until_equal(lambda: counts(source_cluster, f"there.{topic}"), {0: AFTER, 1: 0})
    (new,) = await groups.read_from(target_cluster, f"{alias}-g", topic, 1)
    assert new.key == numbered(1, first=1_000_000)[0].key


async def killed_at_each_step(stage: SwitchoverStage, control: CopierControl) -> DrOperation:
    """Kill a driver before each step; another one goes on each time."""
    for rule in SWITCHOVER:
        with killed_before(rule.name), pytest.raises(DriverKilled):
            await (stage.start(control, CHOICES) if rule is SWITCHOVER[0] else stage.resume(control))
    return await stage.resume(control)


@pytest.mark.full
@pytest.mark.parametrize(
    ("step", "undone"),
    [("drain", ["fence"]), ("positions", ["pause", "fence"]), ("reverse", ["positions", "pause", "fence"])],
)
async def test_a_switchover_that_is_taken_back_leaves_nothing(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path, step: str, undone: list[str]
) -> None:
    alias = f"back-{step}"
    topic = f"{alias}-t"
    stage = SwitchoverStage(tmp_path, alias, source_cluster, target_cluster, IDENTITY)
    await create_topics(source_cluster, {topic: 2})
    await produce(source_cluster, topic, 0, numbered(BEFORE))
    async with copying(stage.found.config, stage.found.flow) as copier:
        control = CopierControl(copier)
        with killed_before(step), pytest.raises(DriverKilled):
            await stage.start(control, CHOICES)
        assert stage.gate.exists()
        for rule in undone:
            with killed_before(rule), pytest.raises(DriverKilled):
                await stage.abort(control)
        operation = await stage.abort(control)
        assert operation.state is OperationState.ABORTED
        assert not stage.gate.exists()
        assert await control.is_copying()
        await produce(source_cluster, topic, 1, numbered(AFTER))
        await until_equal(lambda: counts(target_cluster, topic), {0: BEFORE, 1: AFTER})


@pytest.mark.full
async def test_there_and_back_again(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    stage = SwitchoverStage(tmp_path, "again", source_cluster, target_cluster, IDENTITY)
    await create_topics(source_cluster, {"again-t": 2})
    await produce(source_cluster, "again-t", 0, numbered(BEFORE))
    await groups.commit(source_cluster, "again-g", "again-t", {0: 17})  # it reads nothing on either side
    async with copying(stage.found.config, stage.found.flow) as copier:
        await stage.start(CopierControl(copier), CHOICES)
    assert stage.gate.exists()
    await produce(target_cluster, "again-t", 1, numbered(AFTER))
    back = stage.turned("there->again")
    async with copying(back.found.config, back.found.flow) as copier:
        operation = await back.start(CopierControl(copier), msgspec.structs.replace(CHOICES, fence="none"))
    assert operation.state is OperationState.FINISHED
    placed = operation.step("groups")
    assert placed is not None
    assert placed.facts == {"groups": 1, "groups_not_equal": 0}
    read = await groups.read_from(source_cluster, "again-g", "again-t", BEFORE - 17 + AFTER)
    wanted_keys = {0: numbered(BEFORE - 17, first=17), 1: numbered(AFTER)}  # of either partition first
    for number, rows in wanted_keys.items():
        assert [one.key for one in read if one.partition == number] == [one.key for one in rows]
    assert not stage.gate.exists()  # the source may be written to again
    await produce(source_cluster, "again-t", 0, numbered(AFTER, first=1_000_000))
    wanted = await keys(source_cluster, "again-t")
    assert {number: len(rows) for number, rows in wanted.items()} == {0: BEFORE + AFTER, 1: AFTER}
    async with copying(stage.found.config, stage.found.flow):
        await until_equal(lambda: keys(target_cluster, "again-t"), wanted)
    assert await keys(source_cluster, "again-t") == wanted


class IdleControl:
    """A mirror that does what it is told, for a flow without records."""

    def __init__(self) -> None:
        self.done: list[str] = []

    async def is_copying(self) -> bool:
        return True

    async def stopped_lanes(self) -> Mapping[TopicPartition, str]:
        return {}

    async def pause(self) -> None:
        self.done.append("pause")

    async def pause_moved(self, topics: Sequence[str]) -> None:
        self.done += topics

    async def release_moved(self, topics: Sequence[str]) -> None:
        self.done += topics

    async def resume(self) -> str:
        self.done.append("resume")
        return ""

    async def stop(self) -> None:
        self.done.append("stop")

    async def start_reverse(self) -> str:
        return ""


@pytest.mark.full
async def test_the_fence_is_taken_away_while_the_target_is_dead(
    source_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    control = IdleControl()
    await create_topics(source_cluster, {"dying-t": 1})
    with EmbeddedCluster("dying", tmp_path / "dying") as target:
        stage = SwitchoverStage(tmp_path, "dying", source_cluster, target, IDENTITY)
        with killed_before("drain"), pytest.raises(DriverKilled):
            await stage.start(control, msgspec.structs.replace(CHOICES, ignore=("no-topic",)))
        assert stage.gate.exists()
    stored = await read(stage.found)
    assert list(stored.away) == [FlowSide.TARGET]
    (found,) = stored.operations
    assert [one.name for one in found.steps] == ["check", "fence"]
    with pytest.raises(OperationRefused, match="step 'drain' needs the target, which does not answer"):
        await stage.resume(control)
    assert (await stage.abort(control)).state is OperationState.ABORTED
    assert not stage.gate.exists()
    assert control.done == []  # nothing was paused
