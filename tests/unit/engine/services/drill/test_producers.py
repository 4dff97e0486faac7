"""Whether a target could take the producers: the scratch topic, and partitions that would refuse them."""

from collections.abc import Mapping
from typing import cast
from uuid import UUID

import pytest

from engine.base.errors import KafkaRefusal
from engine.kafka.client.metadata import PartitionMeta, TopicMeta
from engine.services.drill.made import Made
from engine.services.drill.producers import ProducerRehearsal, refusing, replicas_of_strictest, strictest
from policies.dr.drill import DrillFindingName, scratch_topic
from policies.model import TopicPartition
from policies.sync.config_sync import TopicState
from policies.sync.topic_configs import ConfigEntry
from tests.fakes.cluster import FakeCluster

TOPIC = scratch_topic("f00d")


class FakeMade:
    """Creates topics on a cluster in memory."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster, self.created, self.refusal = cluster, dict[str, tuple[int, dict[str, str]]](), ""

    async def create_topic(self, topic: str, replication_factor: int, configs: Mapping[str, str]) -> int:
        if self.refusal:
            raise KafkaRefusal(f"creating topic {topic}", 38, self.refusal, "")
        self.created[topic] = replication_factor, dict(configs)
        for number in range(2):
            self.cluster.target(topic, number)
        return 2


def entry(value: str) -> ConfigEntry:
    return cast("ConfigEntry", type("Entry", (), {"value": value})())


async def rehearsed(made: FakeMade) -> list[tuple[DrillFindingName, str]]:
    rehearsal = ProducerRehearsal("f00d", made.cluster, cast("Made", made), 5.0)
    found = await rehearsal.produce(2, {"min.insync.replicas": "2"})
    return [(one.name, one.subject) for one in found]


async def test_each_partition_of_the_scratch_topic_gets_one_record() -> None:
    made = FakeMade(FakeCluster("B"))
    assert await rehearsed(made) == []
    assert made.created == {TOPIC: (2, {"min.insync.replicas": "2"})}
    for number in range(2):
        (record,) = made.cluster.targets[TopicPartition(TOPIC, number)].records()
        assert record.value == b"raymirror drill"


async def test_a_topic_that_cannot_be_created_is_a_finding() -> None:
    made = FakeMade(FakeCluster("B"))
    made.refusal = "InvalidReplicationFactor"
    assert await rehearsed(made) == [(DrillFindingName.PRODUCE, TOPIC)]


@pytest.mark.parametrize("break_it", ["denied", "down"])
async def test_a_partition_that_takes_no_record_is_a_finding(break_it: str) -> None:
    made = FakeMade(FakeCluster("B"))
    real = made.create_topic

    async def create(topic: str, replication_factor: int, configs: Mapping[str, str]) -> int:
        partitions = await real(topic, replication_factor, configs)
        if break_it == "denied":
            made.cluster.targets[TopicPartition(TOPIC, 1)].denied = True
        else:
            made.cluster.down.add(1)
        return partitions

    made.create_topic = create  # type: ignore[method-assign]
    found = await rehearsed(made)
    assert found[-1] == (DrillFindingName.PRODUCE, f"{TOPIC}-1")
    assert len(found) == (1 if break_it == "denied" else 2)


def test_the_scratch_topic_is_as_strict_as_the_strictest_copy() -> None:
    copies = [
        {"min.insync.replicas": entry("1"), "max.message.bytes": entry("2000")},
        {"min.insync.replicas": entry("2"), "max.message.bytes": entry("1000"), "other": entry("9")},
        {},
    ]
    assert strictest(copies) == {"min.insync.replicas": "2", "max.message.bytes": "2000"}
    assert strictest([]) == {}


@pytest.mark.parametrize(
    ("least", "factor", "replicas"), [("2", 1, 3), ("2", 5, 5), ("2", -1, 3), ("1", 1, 1), ("1", -1, -1)]
)
def test_the_scratch_topic_has_as_many_replicas_as_the_topics_that_are_as_strict(
    least: str, factor: int, replicas: int
) -> None:
    """With fewer than `min.insync.replicas` the brokers would refuse what every real topic takes."""
    topics = {name: TopicState(partitions=1, replicas=count) for name, count in (("orders", 3), ("A.orders", 1))}
    configs = {"orders": {"min.insync.replicas": entry(least)}, "A.orders": {"min.insync.replicas": entry("1")}}
    assert replicas_of_strictest(factor, topics, configs) == replicas
    assert replicas_of_strictest(factor, {}, {}) == factor


def test_a_partition_without_a_leader_or_with_too_few_in_sync_would_refuse_producers() -> None:
    partitions = {
        0: PartitionMeta(1, 0, (1, 2), (1, 2)),
        1: PartitionMeta(-1, 0, (1, 2), ()),
        2: PartitionMeta(1, 0, (1, 2), (1,)),
    }
    described = TopicMeta(0, UUID(int=1), False, partitions)
    assert [(one.name, one.subject) for one in refusing("t", described, 2)] == [
        (DrillFindingName.NO_LEADER, "t-1"),
        (DrillFindingName.IN_SYNC, "t-2"),
    ]
    assert [one.subject for one in refusing("t", described, 1)] == ["t-1"]
