"""New copies are compared with their sources by many topics in a request; one that is refused fails alone."""

from collections.abc import Iterable, Sequence
from typing import cast
from uuid import UUID

import pytest

from engine.base.clock import wall_ms
from engine.base.errors import BrokerUnreachable, KafkaRefusal
from engine.flow.ports.settings_port import TOPICS_AT_ONCE
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.metadata import Metadata, PartitionMeta, TopicMeta
from engine.kafka.data.first_records import FirstTimes
from engine.kafka.discovery import copy_checks as under_test
from engine.kafka.discovery.copy_checks import CopyChecks, check_copies
from policies.model import TopicPartition
from policies.sync.topic_configs import ConfigEntry

HOUR_MS = 3_600_000
Answer = dict[str, str] | KafkaRefusal


def _entries(configs: dict[str, str]) -> dict[str, ConfigEntry]:
    return {name: ConfigEntry(value, 1, read_only=False, sensitive=False) for name, value in configs.items()}


class Stage:
    """Two clusters: configs of each, ages in ms of the oldest record of source topics (none: empty), and faults."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.source, self.target = cast("ClusterClient", "source"), cast("ClusterClient", "target")
        self.configs: dict[str, Answer] = {}
        self.ages: dict[str, int] = {}
        self.left_out: set[str] = set()
        self.hidden: set[str] = set()
        self.led_by_dead: set[TopicPartition] = set()
        self.answers: int | None = None
        """Requests for configs that are answered; none is behind them."""
        self.described: list[int] = []
        self.asked: list[list[TopicPartition]] = []
        monkeypatch.setattr(under_test, "describe_each", self.describe_each)
        monkeypatch.setattr(under_test, "FirstRecords", lambda _client, _metadata: self)

    async def describe_each(
        self, _client: ClusterClient, topics: Sequence[str], _names: Sequence[str]
    ) -> dict[str, dict[str, ConfigEntry] | KafkaRefusal]:
        if len(self.described) == self.answers:
            raise BrokerUnreachable("broker 1", "gone")
        self.described.append(len(topics))
        told = {topic: self.configs.get(topic, {}) for topic in topics if topic not in self.left_out}
        return {topic: one if isinstance(one, KafkaRefusal) else _entries(one) for topic, one in told.items()}

    async def times(self, partitions: Iterable[TopicPartition]) -> FirstTimes:
        """Partition 0 of a topic has records, the other one is empty."""
        self.asked.append(list(partitions))
        times = FirstTimes()
        for partition in self.asked[-1]:
            if partition.topic in self.hidden:
                times.refused[partition] = f"offsets of {partition}: TopicAuthorizationFailed (29)"
            elif partition in self.led_by_dead:
                times.unknown.add(partition)
            elif partition.partition == 0 and partition.topic in self.ages:
                times.at_ms[partition] = wall_ms() - self.ages[partition.topic]
        return times

    async def check(self, *topics: str) -> CopyChecks:
        led = {number: PartitionMeta(1, 0, (1,)) for number in range(2)}
        found = {topic: TopicMeta(0, UUID(int=1), False, led) for topic in topics}
        metadata = Metadata(cluster_id="i", controller=1, brokers={}, topics=found)
        return await check_copies(self.source, self.target, {topic: f"A.{topic}" for topic in topics}, metadata)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


async def test_what_changes_the_data_is_found(stage: Stage) -> None:
    stage.configs["A.t"] = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"}
    found = await stage.check("t", "u")
    assert len(found.differences["t"]) == 2
    assert found.differences["u"] == []
    assert found.refused == {}


async def test_many_topics_take_few_requests(stage: Stage) -> None:
    topics = [f"t-{number:04}" for number in range(2 * TOPICS_AT_ONCE)]
    stage.configs |= {f"A.{topic}": {"retention.ms": str(HOUR_MS)} for topic in topics}
    stage.ages = dict.fromkeys(topics, 2 * HOUR_MS)
    found = await stage.check(*topics)
    assert len(found.differences) == len(topics)
    assert stage.described == [TOPICS_AT_ONCE] * 4
    assert [len(partitions) for partitions in stage.asked] == [2 * TOPICS_AT_ONCE] * 2


async def test_records_beyond_the_limit_are_found(stage: Stage) -> None:
    stage.configs |= {f"A.{topic}": {"retention.ms": str(HOUR_MS)} for topic in ("old", "young", "empty")}
    stage.ages = {"old": 2 * HOUR_MS, "young": HOUR_MS // 2}
    found = await stage.check("old", "young", "empty")
    assert [topic for topic, what in found.differences.items() if what] == ["old"]
    assert "2.0 h old, the target keeps 1.0 h" in found.differences["old"][0]


@pytest.mark.parametrize("limit", ["-1", str(2**63 - 1)])
async def test_a_limit_beyond_all_times_is_not_asked_for(stage: Stage, limit: str) -> None:
    stage.configs["A.t"] = {"message.timestamp.before.max.ms": limit, "retention.ms": "-1"}
    stage.ages["t"] = HOUR_MS
    assert (await stage.check("t")).differences == {"t": []}
    assert stage.asked == [[]]


async def test_a_leader_that_does_not_answer_delays_its_topics_only(stage: Stage) -> None:
    """A broker that is down may lead a third of the partitions for hours; a leader may move after the metadata."""
    topics = [f"t-{number}" for number in range(7)]
    stage.configs |= {f"A.{topic}": {"retention.ms": str(HOUR_MS)} for topic in topics}
    stage.led_by_dead = {TopicPartition("t-3", 1)}
    found = await stage.check(*topics)
    assert set(found.differences) == set(topics) - {"t-3"}
    assert not found.refused


async def test_a_refused_topic_fails_alone(stage: Stage) -> None:
    topics = [f"t-{number}" for number in range(7)]
    stage.configs |= {f"A.{topic}": {"retention.ms": str(HOUR_MS)} for topic in topics}
    stage.configs["A.t-1"] = KafkaRefusal("configs of A.t-1", 29, "TopicAuthorizationFailed", "")
    stage.hidden.add("t-4")
    found = await stage.check(*topics)
    assert set(found.refused) == {"t-1", "t-4"}
    assert set(found.differences) == set(topics) - {"t-1", "t-4"}


async def test_a_topic_that_an_answer_leaves_out_is_compared_later(stage: Stage) -> None:
    stage.left_out = {"A.u"}
    assert await stage.check("t", "u") == CopyChecks(differences={"t": []})


async def test_a_copy_that_a_broker_does_not_know_yet_is_compared_later(stage: Stage) -> None:
    stage.configs["A.new"] = KafkaRefusal("configs of A.new", 3, "UnknownTopicOrPartition", "")
    assert await stage.check("new", "t") == CopyChecks(differences={"t": []})


async def test_what_was_found_before_a_broker_went_away_counts(stage: Stage) -> None:
    topics = [f"t-{number:04}" for number in range(3 * TOPICS_AT_ONCE)]
    stage.answers = 2
    found = await stage.check(*topics)
    assert set(found.differences) == set(topics[:TOPICS_AT_ONCE])


async def test_a_round_compares_for_some_seconds(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror that starts again compares all topics: what is copied waits for the first round."""
    monkeypatch.setattr(under_test, "now_s", lambda: float(len(stage.described)))
    topics = [f"t-{number:04}" for number in range(9 * TOPICS_AT_ONCE)]
    found = await stage.check(*topics)
    assert set(found.differences) == set(topics[: 3 * TOPICS_AT_ONCE])


async def test_a_topic_without_a_leader_waits_alone(stage: Stage) -> None:
    stage.configs |= {f"A.{topic}": {"retention.ms": "1"} for topic in ("led", "lone")}
    led, lone = {0: PartitionMeta(1, 0, (1,))}, {0: PartitionMeta(-1, 0, (1,))}
    topics = {"led": TopicMeta(0, UUID(int=1), False, led), "lone": TopicMeta(0, UUID(int=2), False, lone)}
    metadata = Metadata(cluster_id="i", controller=1, brokers={}, topics=topics)
    found = await check_copies(stage.source, stage.target, {"led": "A.led", "lone": "A.lone"}, metadata)
    assert found == CopyChecks(differences={"led": []})
