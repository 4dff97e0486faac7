"""The record of a drill: written first, beating, removed last; and what is taken away by it."""

import asyncio
from collections.abc import Sequence

import pytest

from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.core.reports.drill_report import FINDINGS_KEPT, DrillReport
from engine.flow.ports.ports import GroupListing, Listed
from engine.flow.topic_logs.drill_log import DrillLog
from engine.services.drill.record import DrillRecord, DrillRuns, OperationRuns
from engine.state.state import OPERATION_SCOPE, OperationEntry, StateCodec, operation_key, state_topic
from engine.wire.record import Record
from engine.wire.records import encode_batch
from policies.dr.drill import not_judged, scratch_topic, shadow_group
from policies.dr.operations import DrOperation, OperationState
from policies.model import FlowName, TopicPartition
from tests.fakes.cluster import FakeCluster

FLOW = FlowName("A", "B")
TOPIC = state_topic("A")


class FakeMade:
    """Groups and topics of a target."""

    def __init__(self) -> None:
        self.groups = {"billing", "raymirror-drill-", "raymirror-drill-other-billing"}
        self.topics = {"A.orders"}
        self.refused: dict[str, str] = {}
        self.silent: dict[int, str] = {}
        self.is_lost = False

    def make(self, run_id: str) -> None:
        """Make what a drill makes."""
        self.groups |= {shadow_group(run_id, group) for group in ("billing", "g")}
        self.topics.add(scratch_topic(run_id))

    async def list_groups(self) -> Listed:
        if self.is_lost:
            raise ConnectionLost("B:1 is down")
        return Listed([GroupListing(name, "consumer", "classic") for name in sorted(self.groups)], self.silent)

    async def delete_groups(self, groups: Sequence[str]) -> dict[str, str]:
        self.groups -= {group for group in groups if group not in self.refused}
        return {group: why for group, why in self.refused.items() if group in groups}

    async def has_topic(self, topic: str) -> bool:
        return topic in self.topics

    async def delete_topic(self, topic: str) -> None:
        if topic in self.refused:
            raise KafkaRefusal(f"deleting topic {topic}", 29, "TopicAuthorizationFailed", "grant Delete")
        self.topics.discard(topic)


class World:
    """A target with a state topic, and drills of its flow."""

    def __init__(self) -> None:
        self.cluster, self.made = FakeCluster("B"), FakeMade()
        self.cluster.target(TOPIC)
        self.before = set(self.made.groups), set(self.made.topics)

    def log(self) -> DrillLog:
        return DrillLog(self.cluster, FLOW, 5.0)

    def record(self, run_id: str = "f00d") -> DrillRecord:
        return DrillRecord(str(FLOW), run_id, self.log(), self.made)

    async def runs(self) -> set[str]:
        """Return the runs that the target knows."""
        found, _ = await self.log().read()
        return set(found)

    async def killed(self, run_id: str = "dead") -> None:
        """Leave what a drill has made that was killed."""
        await self.record(run_id).begin()
        self.made.make(run_id)

    def operate(self, state: OperationState) -> None:
        """Store an operation, as its driver does."""
        operation = DrOperation(id="op", kind="switchover", source="A", target="B", who="me", began_ms=1, state=state)
        codec = StateCodec(FLOW, TOPIC, OPERATION_SCOPE)
        entries = codec.encode({operation_key("op"): OperationEntry(operation=operation)})
        batch = encode_batch([Record(0, 10**13, key, value) for key, value in entries.items()], 0)
        self.cluster.targets[TopicPartition(TOPIC, 0)].append(bytes(batch))


@pytest.fixture
def world() -> World:
    return World()


async def test_what_a_drill_makes_is_recorded_until_it_is_gone(world: World) -> None:
    record = world.record()
    await record.begin()
    assert await world.runs() == {"f00d"}
    world.made.make("f00d")
    assert await record.take_away("f00d") == ()
    assert (world.made.groups, world.made.topics) == world.before
    assert await world.runs() == set()


async def test_a_drill_that_was_killed_is_taken_away_by_its_record(world: World) -> None:
    await world.killed("dead")
    await world.killed("gone")
    assert await world.record().clean() == {"dead": (), "gone": ()}
    assert (world.made.groups, world.made.topics) == world.before
    assert await world.runs() == set()
    assert await world.record().clean() == {}


async def test_names_without_a_record_are_left_alone(world: World) -> None:
    world.made.make("unrecorded")
    before = set(world.made.groups), set(world.made.topics)
    await world.killed()
    await world.record().clean()
    assert (world.made.groups, world.made.topics) == before


async def test_a_drill_that_beats_is_alive_and_left_alone(world: World) -> None:
    other = world.record("busy")
    await other.begin()
    world.made.make("busy")
    async with asyncio.TaskGroup() as group:
        beating = group.create_task(other.beat())
        with pytest.raises(DrillRuns, match="drill busy of flow A->B runs on"):
            await world.record().clean()
        beating.cancel()
    assert shadow_group("busy", "g") in world.made.groups
    assert await world.runs() == {"busy"}


@pytest.mark.parametrize("name", [shadow_group("dead", "g"), scratch_topic("dead")])
async def test_what_cannot_be_taken_away_keeps_its_record(world: World, name: str) -> None:
    await world.killed()
    world.made.refused = {name: "GroupAuthorizationFailed"}
    ((text,),) = (await world.record().clean()).values()
    assert "AuthorizationFailed" in text
    assert await world.runs() == {"dead"}
    world.made.refused = {}
    assert await world.record().clean() == {"dead": ()}
    assert (world.made.groups, world.made.topics) == world.before


async def test_a_silent_broker_may_have_groups_so_the_record_stays(world: World) -> None:
    await world.killed()
    world.made.silent = {3: "no answer"}
    ((text,),) = (await world.record().clean()).values()
    assert "broker 3: no answer" in text
    assert await world.runs() == {"dead"}


async def test_a_topic_is_taken_away_even_if_the_groups_cannot_be_listed(world: World) -> None:
    await world.killed()
    world.made.is_lost = True
    ((text,),) = (await world.record().clean()).values()
    assert "B:1 is down" in text
    assert world.made.topics == world.before[1]


async def test_an_operation_between_the_clusters_keeps_a_drill_out(world: World) -> None:
    world.operate(OperationState.FINISHED)
    await world.record("before").begin()
    world.operate(OperationState.RUNNING)
    with pytest.raises(OperationRuns, match="switchover op between the clusters of A->B has not ended"):
        await world.record().begin()
    assert await world.runs() == {"before"}


async def test_a_drill_gives_way_to_an_operation_that_begins(world: World) -> None:
    record = world.record()
    await record.begin()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(10.0):
            await record.beat()
    world.operate(OperationState.RUNNING)
    with pytest.raises(OperationRuns):
        await record.beat()


async def test_the_stored_report_has_the_first_findings(world: World) -> None:
    many = tuple(not_judged(str(number), "why") for number in range(FINDINGS_KEPT + 5))
    report = DrillReport(run_id="f00d", flow="A->B", began_ms=1, ended_ms=2, findings=many, hurts=3)
    await world.record().store(report)
    _, found = await world.log().read()
    assert found is not None
    assert (len(found.findings), found.hurts, found.passed) == (FINDINGS_KEPT, 3, False)


async def test_a_mirror_reads_nothing_of_drills(world: World) -> None:
    await world.killed()
    assert StateCodec(FLOW, TOPIC).decode(await world.cluster.read_records(TOPIC)) == {}
