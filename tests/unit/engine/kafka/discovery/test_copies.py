"""New copies in rounds of discovery that ask a broker which does not know them yet."""

from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest

from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.core.events.config_events import ConfigUnknown
from engine.core.events.events import AnyEvent, TopicCreated, TopicFailed
from engine.flow.ports.settings_port import TOPICS_AT_ONCE
from engine.kafka.admin.unknown_configs import UnknownConfigs
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.metadata import Metadata, PartitionMeta, TopicMeta
from engine.kafka.discovery import copies as under_test
from engine.kafka.discovery.copies import Copies
from engine.kafka.discovery.copy_checks import CopyChecks
from engine.kafka.discovery.discovery_events import DiscoveryEvents
from engine.kafka.discovery.new_copies import Made
from tests.unit.engine.config_files import flow

PARTITIONS = 4


def metadata(*topics: str, partitions: int = PARTITIONS) -> Metadata:
    led = {number: PartitionMeta(1, 0, (1,)) for number in range(partitions)}
    found = {topic: TopicMeta(0, UUID(int=1), False, led) for topic in topics}
    return Metadata(cluster_id="i", controller=1, brokers={}, topics=found)


class Stage:
    """A flow with the topic `t`; whether the target's controller makes its copy, or says that it is there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        source, target = (cast("ClusterClient", SimpleNamespace(alias=alias)) for alias in "AB")
        self.moved: tuple[str, ...] = ()
        self.told = DiscoveryEvents(flow().name)
        self.copies = Copies(flow(), source, target, self.told, lambda: self.moved)
        self.makes = True
        self.events: list[AnyEvent] = []
        self.fault: dict[str, Exception] = {}
        self.each = False
        """Whether the request is answered, and the faults are of single topics."""
        self.grow_fault: Exception | None = None
        self.asked: list[list[str]] = []
        self.strange: dict[str, str] = {}
        """Configs that the target does not know, by topic."""
        self.grown: list[str] = []
        self.compared: list[str] = []
        self.answers_checks = False
        monkeypatch.setattr(under_test, "create_copies", self.create)
        monkeypatch.setattr(under_test, "grow_topic", self.grow)
        monkeypatch.setattr(under_test, "check_copies", self.check)

    async def create(
        self, _source: object, _target: object, _flow: object, topics: list[str], _of: object, unknown: UnknownConfigs
    ) -> Made:
        self.asked.append(topics)
        for topic, config in self.strange.items():
            unknown.learn(f"A.{topic}", 40, f"Unknown topic config name: {config}", {config: "1"})
        if self.each:
            return {topic: cast("KafkaRefusal | None", self.fault.get(topic)) or self.makes for topic in topics}
        for topic in topics:
            if topic in self.fault:
                raise self.fault[topic]
        return dict.fromkeys(topics, self.makes)

    async def grow(self, _target: object, topic: str, _partitions: int, *, waits: bool) -> None:
        assert not waits, "other topics wait behind it"
        self.grown.append(topic)
        if self.grow_fault is not None:
            raise self.grow_fault
        if not self.makes:
            raise KafkaRefusal("adding partitions", 37, "InvalidPartitions", "")

    async def check(self, _source: object, _target: object, copies: dict[str, str], _metadata: object) -> CopyChecks:
        self.compared = sorted(copies)
        return CopyChecks(differences={topic: [] for topic in copies} if self.answers_checks else {})

    async def round(self, topics: list[str], known: Metadata | None = None) -> dict[str, int]:
        try:
            return await self.copies.prepare(topics, metadata(*topics), known or metadata(), {})
        finally:
            self.events += self.told.take()

    async def ready(self, known: Metadata | None = None, *, makes: bool) -> int:
        """Look while the broker that is asked knows these copies."""
        self.makes = makes
        return (await self.round(["t"], known))["t"]


async def test_a_copy_that_not_every_broker_knows_yet_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    assert await stage.ready(makes=True) == PARTITIONS
    assert await stage.ready(makes=False) == PARTITIONS, "it is no topic that has gone"
    assert await stage.ready(metadata("A.t"), makes=False) == PARTITIONS
    assert [type(event) for event in stage.events] == [TopicCreated]


async def test_a_copy_that_somebody_else_makes_is_looked_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    assert await stage.ready(makes=False) == 0
    assert await stage.ready(makes=True) == PARTITIONS
    assert await stage.ready(metadata("A.t"), makes=True) == PARTITIONS
    assert await stage.ready(makes=False) == 0, "it was gone for a while, and may have any number of partitions now"


async def test_partitions_that_not_every_broker_knows_yet_are_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    fewer = metadata("A.t", partitions=PARTITIONS - 1)
    for makes in (True, False, False):
        assert await stage.ready(fewer, makes=makes) == PARTITIONS
    assert [type(event) for event in stage.events] == [TopicCreated], "nothing failed, and it was added once"


async def test_a_topic_of_a_round_that_failed_is_not_compared_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    topics = [f"t-{number:03}" for number in range(TOPICS_AT_ONCE)]
    stage.fault["u"] = KafkaRefusal("b:1: CreateTopicsRequest", 35, "UnsupportedVersion", "")
    with pytest.raises(KafkaRefusal):
        await stage.round([*topics, "u"])
    assert len(stage.events) == len(topics), "what was created before is reported"
    assert await stage.ready(makes=True) == PARTITIONS
    assert stage.compared == ["t"], "the source may not have the others any more"


LOST = ConnectionLost("b:1: no answer within 30 s")


async def test_what_exists_is_copied_while_the_controller_gives_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A KRaft cluster whose controllers have no majority serves its topics, and creates none."""
    stage = Stage(monkeypatch)
    new = [f"new-{number:04}" for number in range(3 * TOPICS_AT_ONCE)]
    stage.fault |= dict.fromkeys(new, LOST)
    ready = await stage.round(["old", *new], metadata("A.old"))
    assert {topic for topic, count in ready.items() if count} == {"old"}
    assert len(stage.asked) == 1, "each further request would cost a time-out"


async def test_what_a_round_has_created_is_copied_while_the_next_ones_create_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage(monkeypatch)
    topics = [f"t-{number:04}" for number in range(5 * TOPICS_AT_ONCE)]
    monkeypatch.setattr(under_test, "now_s", lambda: len(stage.asked) * 8.0)
    made: list[int] = []
    for _ in range(2):
        known = [f"A.{topic}" for asked in stage.asked for topic in asked]
        ready = await stage.round(topics, metadata(*known))
        made.append(sum(1 for count in ready.values() if count))
    assert made == [3 * TOPICS_AT_ONCE, 5 * TOPICS_AT_ONCE]
    assert [asked[0] for asked in stage.asked] == topics[::TOPICS_AT_ONCE], "the second begins where the first ended"


async def test_topics_grow_no_more_in_a_round_without_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    stage.grow_fault = LOST
    fewer = metadata("A.s", "A.t", partitions=PARTITIONS - 1)
    assert await stage.round(["s", "t"], fewer) == {"s": PARTITIONS - 1, "t": PARTITIONS - 1}
    assert stage.grown == ["A.s"]


async def test_a_copy_that_producers_have_moved_to_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    stage.moved = ("s",)
    fewer = metadata("A.s", "A.t", partitions=PARTITIONS - 1)
    assert await stage.round(["s", "t"], fewer) == {"s": PARTITIONS - 1, "t": PARTITIONS}
    assert stage.grown == ["A.t"]


async def test_a_topic_that_is_refused_is_no_load_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy of the target may refuse thousands: each request describes them on the source, and is logged there."""
    stage = Stage(monkeypatch)
    stage.each = True
    stage.fault["t"] = KafkaRefusal("creating topic A.t", 44, "PolicyViolation", "")
    for _ in range(16):
        await stage.round(["t"])
    assert len(stage.asked) == 5
    assert len(stage.events) == 1


async def test_a_request_that_is_always_lost_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    topics = [f"t-{number:04}" for number in range(2 * TOPICS_AT_ONCE)]
    stage.fault[topics[0]] = LOST
    await stage.round(topics)
    ready = await stage.round(topics)
    assert sum(1 for count in ready.values() if count) == TOPICS_AT_ONCE


@pytest.mark.parametrize("code", [7, 41, 89])
async def test_a_change_that_waits_is_reported_in_the_third_round(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    stage = Stage(monkeypatch)
    topics = ["t", "u"]
    stage.fault |= dict.fromkeys(topics, KafkaRefusal("creating topic A.t", code, "Later", ""))
    stage.each = True
    for expected in (0, 0, 1, 1):
        await stage.round(topics)
        assert [event.topic for event in stage.events if isinstance(event, TopicFailed)] == ["t"] * expected
    stage.fault.clear()
    assert await stage.round(topics) == dict.fromkeys(topics, PARTITIONS)


async def test_a_controller_that_is_away_for_long_is_one_event(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    topics = [f"t-{number:04}" for number in range(4 * TOPICS_AT_ONCE)]
    stage.fault |= dict.fromkeys(topics, LOST)
    for _ in range(9):
        await stage.round(topics)
    (event,) = stage.events
    assert "raymirror cannot create its copy (connection lost: b:1" in event.text()
    assert "changes of other topics wait too" in event.text()


async def test_a_copy_that_was_created_after_the_time_out_is_reported_as_created(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A controller with ZooKeeper creates first, and waits for leaders up to the time-out (DelayedCreatePartitions)."""
    stage = Stage(monkeypatch)
    stage.fault["t"] = KafkaRefusal("creating topic A.t", 7, "RequestTimedOut", "")
    stage.each = True
    await stage.round(["t"])
    stage.fault.clear()
    assert await stage.ready(makes=False) == 0, "it is there, and no broker lists it yet"
    assert stage.events == []
    assert await stage.ready(metadata("A.t"), makes=False) == PARTITIONS
    assert await stage.ready(metadata("A.t"), makes=False) == PARTITIONS
    assert [type(event) for event in stage.events] == [TopicCreated]


async def test_a_growth_that_waits_is_no_creation(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    stage.grow_fault = KafkaRefusal("adding partitions", 7, "RequestTimedOut", "")
    fewer = metadata("A.t", partitions=PARTITIONS - 1)
    assert await stage.ready(fewer, makes=True) == PARTITIONS - 1
    assert await stage.ready(metadata("A.t"), makes=True) == PARTITIONS
    assert stage.events == []


async def test_a_copy_whose_deletion_does_not_end_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ZooKeeper, a deletion waits for replicas on dead brokers: CreateTopics sees the topic, Metadata does not."""
    stage = Stage(monkeypatch)
    for _ in range(5):
        assert await stage.ready(makes=False) == 0
    (event,) = stage.events
    assert isinstance(event, TopicFailed)
    assert "says that topic A.t exists, but no broker lists it" in event.what


async def test_a_copy_that_is_made_anew_is_compared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    stage.answers_checks = True
    await stage.ready(makes=True)
    assert stage.compared == ["t"]
    await stage.ready(metadata("A.t"), makes=True)
    assert stage.compared == []
    await stage.ready(makes=True)
    assert stage.compared == ["t"]


async def test_a_config_that_the_target_does_not_know_is_one_event(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    stage.strange = {"t": "brand.new", "u": "brand.new"}
    for topics in (["t", "u"], ["v"]):
        await stage.round(topics)
    (event,) = (one for one in stage.events if not isinstance(one, TopicCreated))
    assert event == ConfigUnknown(flow=flow().name, name="brand.new", target="A.t")
    assert "add brand.new to config.properties.exclude" in event.text()


async def test_a_value_that_the_target_refuses_says_what_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    stage.each = True
    stage.fault["t"] = KafkaRefusal("creating topic A.t", 40, "InvalidConfig: Invalid value", "")
    await stage.round(["t"])
    (event,) = stage.events
    assert event.text().endswith("or add the config to config.properties.exclude")
