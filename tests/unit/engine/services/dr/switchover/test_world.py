"""What a switchover asks of the target, over scripted settings: what its own earlier fence refuses is not lacking."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from engine.base.errors import KafkaRefusal
from engine.config.config import load_config, read_properties, reread_config
from engine.config.file.reversed_flow import reversed_properties
from engine.config.settings import MirrorConfig
from engine.core.refused.entries import RefusedState
from engine.core.reports.drain import Ends
from engine.flow.operations.reading import OperationCopy
from engine.flow.operations.stints import Stints, StoredStart
from engine.flow.ports.ports import Answers, EpochEnd, Leader
from engine.flow.topic_logs.last_known import KnownLane, LastKnown
from engine.kafka.admin import unfenced_settings
from engine.kafka.admin.settings import KafkaSettings
from engine.services.dr.switchover import world as world_module
from engine.services.dr.switchover.world import (
    DrainedEnd,
    DrainWorld,
    GrownPartition,
    ReverseConfig,
    SwitchoverWorld,
    grown_since_move,
)
from engine.services.quarantine import LeftOutRow, RefusedRow, RefusedStanding, RefusedSurvey
from engine.state.moves import Moves
from engine.state.state import (
    DESIRED,
    DesiredState,
    Key,
    MovedTopic,
    OperationEntry,
    OperationNotes,
    Value,
    notes_key,
    operation_key,
)
from policies.dr.fence import FENCE_NOTES, FenceRow
from policies.dr.operations import NotesPlace, begun, done, finished
from policies.dr.readiness import UnreadyName
from policies.model import FlowName, TopicPartition
from policies.sync.acl_sync import Binding, Operation, Pattern, Permission, Resource
from policies.sync.config_sync import TopicState
from policies.sync.topic_configs import ConfigEntry
from tests.unit.engine.core.refused.test_entries import FACTS
from tests.unit.engine.flow.operations.staged import new

FILE = """clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
B->A.enabled = true
B->A.topics = orders
replication.policy.class = IdentityReplicationPolicy
"""
WRITES = Binding(Resource.TOPIC, "orders", Pattern.LITERAL, "User:shop", "*", Operation.WRITE, Permission.ALLOW)
FENCED = WRITES._replace(permission=Permission.DENY)


def config_of(folder: Path, text: str) -> MirrorConfig:
    path = folder / "mm2.properties"
    path.write_text(text)
    return load_config(path)


def operated(source: str, target: str) -> OperationCopy:
    """Return what is stored of a finished operation that has left its fence on its source."""
    operation = done(begun(new("1", source=source, target=target), "fence", 1), "fence", 2, {})
    operation = msgspec.structs.replace(finished(operation, 9), notes={FENCE_NOTES: NotesPlace(1, 1)})
    notes = OperationNotes(rows=(msgspec.Raw(msgspec.json.encode(FenceRow(FENCED))),))
    entries = {operation_key("1"): OperationEntry(operation=operation), notes_key("1", FENCE_NOTES, 1, 0): notes}
    return OperationCopy(entries=entries)


@pytest.mark.parametrize(("source", "target", "denied"), [("A", "B", 0), ("B", "A", 1)])
async def test_a_switchover_back_is_not_stopped_by_the_fence_that_it_lifts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, target: str, denied: int
) -> None:
    async def topics(_self: KafkaSettings, _names: Sequence[str] | None) -> dict[str, TopicState]:
        return {"orders": TopicState(partitions=1, replicas=3)}

    async def configs(_self: KafkaSettings, wanted: Mapping[str, tuple[str, ...]]) -> Answers[dict[str, ConfigEntry]]:
        one = ConfigEntry("1", 5, read_only=False, sensitive=False)
        return Answers({topic: dict.fromkeys(names, one) for topic, names in wanted.items()}, {})

    async def acls(self: KafkaSettings, resource: Resource) -> set[Binding]:
        there = {WRITES, FENCED} if self._client.alias == "A" else {WRITES}
        return {one for one in there if one.resource == resource}

    async def read_copy(*_args: object) -> OperationCopy:
        return operated(source, target)

    for name, does in (("topics", topics), ("configs", configs), ("acls", acls)):
        monkeypatch.setattr(KafkaSettings, name, does)
    monkeypatch.setattr(unfenced_settings, "read_copy", read_copy)
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    config = load_config(path)
    turned = reread_config(reversed_properties(read_properties(path), FlowName("B", "A")))
    reverse = ReverseConfig(config=turned, flow=turned.flows[0], is_enabled=False)
    ready = await SwitchoverWorld(config, config.flows[0], reverse).readiness()
    assert ready.unknown == ()
    assert [one.name for one in ready.unready] == [UnreadyName.DENIED] * denied


async def test_a_world_about_some_topics_knows_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def topics(_self: KafkaSettings, _names: Sequence[str] | None) -> dict[str, TopicState]:
        return {name: TopicState(partitions=1, replicas=3) for name in ("clicks", "orders")}

    async def ends(_self: DrainWorld, _known: object) -> Ends:
        return Ends(ends={TopicPartition("clicks", 0): 5, TopicPartition("orders", 0): 7})

    async def nothing(*_args: object) -> dict[TopicPartition, int]:
        return {}

    monkeypatch.setattr(KafkaSettings, "topics", topics)
    monkeypatch.setattr(DrainWorld, "ends", ends)
    monkeypatch.setattr(world_module, "unreplicated", nothing)
    path = tmp_path / "mm2.properties"
    path.write_text(FILE.replace("topics = orders", "topics = .*"))
    config = load_config(path)
    world = DrainWorld(config, config.flows[0])
    about = world.about(["orders", "other"])
    assert (await world.fenced_topics(), await about.fenced_topics()) == (["clicks", "orders"], ["orders"])
    assert (await about.ends_now()).ends == {TopicPartition("orders", 0): 7}
    assert await about.grown([DrainedEnd("orders", 0, 7)]) == ()
    assert [one.topic for one in await about.grown([DrainedEnd("orders", 0, 6)])] == ["orders"]


async def test_what_earlier_switchovers_have_stored_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[FlowName]()

    async def operations() -> OperationCopy:
        return OperationCopy()

    def stints_of(_copy: OperationCopy, flow: FlowName) -> Stints:
        read.append(flow)
        return stored

    stored = Stints(starts=({TopicPartition("orders", 0): StoredStart("orders", 0, 10)},))
    config, turned = config_of(tmp_path, FILE), config_of(tmp_path, FILE.replace("B->A", "A->B"))
    world = SwitchoverWorld(
        config, config.flows[0], ReverseConfig(config=turned, flow=turned.flows[0], is_enabled=True)
    )
    monkeypatch.setattr(world, "operations", operations)
    monkeypatch.setattr(world_module, "stints_of", stints_of)
    assert [await world.stints() for _ in range(2)] == [
        Stints(starts=({TopicPartition("orders", 0): StoredStart("orders", 0, 10)},))
    ] * 2
    assert read == [FlowName("B", "A")]


async def test_what_the_target_refused_is_counted_of_the_topics_that_it_is_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def rows(_self: RefusedSurvey) -> list[RefusedRow]:
        places = (("orders", 1), ("clicks", 0), ("orders", 1), ("unwanted", 0))
        return [row_of(topic, number, at) for at, (topic, number) in enumerate(places)]

    monkeypatch.setattr(RefusedSurvey, "rows", rows)
    path = tmp_path / "mm2.properties"
    path.write_text(FILE.replace("topics = orders", "topics = orders, clicks"))
    config = load_config(path)
    world = DrainWorld(config, config.flows[0])
    assert await world.left_out() == (LeftOutRow("clicks", 0, 1), LeftOutRow("orders", 1, 2))
    assert await world.about(["orders"]).left_out() == (LeftOutRow("orders", 1, 2),)
    assert (await world.known_left_out()).records == 3

    async def denied(_self: RefusedSurvey) -> list[RefusedRow]:
        raise KafkaRefusal("Metadata", 29, "TOPIC_AUTHORIZATION_FAILED", "grant Describe")

    monkeypatch.setattr(RefusedSurvey, "rows", denied)
    with pytest.raises(KafkaRefusal):
        await world.left_out()
    unknown = await world.known_left_out()
    assert (unknown.records, "grant Describe" in unknown.unknown) == (-1, True)


def row_of(topic: str, partition: int, offset: int) -> RefusedRow:
    facts = msgspec.structs.replace(FACTS, topic=topic, partition=partition, offset=offset, target_topic=topic)
    return RefusedRow(standing=RefusedStanding.SKIPPED, state=RefusedState(record=facts))


class Told:
    """A world whose clusters answer from memory: two topics, of which the producers of one have moved."""

    def __init__(self, config: MirrorConfig) -> None:
        self.world = DrainWorld(config, config.flows[0])
        self.wanted = DesiredState(state="running", paused_topics=("clicks", "orders"), moved_topics=("orders",))
        self.ends = {TopicPartition("clicks", 0): 5, TopicPartition("orders", 0): 7}
        self.copied = {TopicPartition("clicks", 0): 5, TopicPartition("orders", 0): 4}
        self.appended = dict(self.ends)

    async def state(self) -> dict[Key, Value]:
        return {DESIRED: self.wanted}

    async def moved(self) -> Moves:
        return Moves(topics={"orders": MovedTopic(at_ms=1, who="ann", operation="op", ends=(4,))})

    async def stored(self) -> LastKnown:
        lanes = (KnownLane(lane=one, target=one, source_next=at, at_ms=0, ours=True) for one, at in self.copied.items())
        return LastKnown(lanes=tuple(lanes))

    async def ends_now(self, _known: object = ()) -> Ends:
        return Ends(ends=self.ends)

    async def stable_ends(self, lanes: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {lane: self.ends[lane] for lane in lanes}

    async def leaders(self, lanes: Sequence[TopicPartition]) -> dict[TopicPartition, Leader]:
        return dict.fromkeys(lanes, Leader(1, 3, "id"))

    async def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        return {lane: EpochEnd(epoch, self.appended[lane]) for lane, epoch in epochs.items()}


async def test_moved_topics_are_not_paused_by_hand_and_are_whole_as_of_their_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE.replace("topics = orders", "topics = .*"))
    told = Told(load_config(path))
    for name in ("state", "moved", "stored", "ends_now"):
        monkeypatch.setattr(told.world, name, getattr(told, name))
    monkeypatch.setattr(told.world, "source", told)
    assert await told.world.paused_topics() == ("clicks",)
    assert (await told.world.undrained())[0] == {}, "nothing copies orders any more"
    told.copied[TopicPartition("clicks", 0)] = 2
    assert (await told.world.undrained())[0] == {"clicks-0": "3 offsets left"}
    told.copied[TopicPartition("clicks", 0)] = 5
    told.appended[TopicPartition("clicks", 0)] = 7
    assert (await told.world.undrained())[0] == {"clicks-0": "2 offsets not replicated on the source yet"}
    drained = [DrainedEnd(*lane, end) for lane, end in told.ends.items()]
    assert await told.world.grown(drained) == (GrownPartition("clicks", 0, 5, 7),), "it will be acknowledged"
    monkeypatch.setattr(DrainWorld, "ends_now", told.ends_now)
    assert await grown_since_move(told.world, (await told.moved()).topics) == {"clicks": 5, "orders": 3}
