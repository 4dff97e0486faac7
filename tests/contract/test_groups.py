"""Consumer groups: what a cluster reports, and what it accepts from a client that is no member, on fake and broker."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as KafkaPartition

from deploy.local.cluster import EmbeddedCluster
from engine.base.errors import GroupActive
from engine.flow.ports.ports import Groups
from engine.kafka.groups.groups import KafkaGroups
from policies.groups import GroupState
from policies.model import TopicPartition
from tests.fakes.groups import FakeGroups
from tests.harness import groups as stock
from tests.harness.admin import create_topics
from tests.harness.mirror import cluster_client

pytestmark = pytest.mark.contract
PARTITIONS = 3


class GroupStage(Protocol):
    """Groups behind the port, with ways to do what only consumers can."""

    port: Groups
    topic: str

    def joined(self, group: str) -> AbstractAsyncContextManager[Any]:
        """Have a member in the group."""

    async def consumed(self, group: str, offsets: Mapping[int, int], metadata: str = "") -> None:
        """Commit as a member that then leaves."""

    def unstable(self, group: str) -> AbstractAsyncContextManager[Any]:
        """Have an offset of partition 0 in an open transaction."""

    async def restart(self) -> None:
        """Stop every broker and start it again, as far as there are any."""


class FakeGroupStage:
    """Groups in memory."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.port: Groups
        self.port = self.fake = FakeGroups("b", {TopicPartition(topic, n) for n in range(PARTITIONS)})

    @asynccontextmanager
    async def joined(self, group: str) -> AsyncIterator[None]:
        self.fake.members.add(group)
        yield
        self.fake.members.discard(group)
        self.fake.stored.setdefault(group, {})

    async def consumed(self, group: str, offsets: Mapping[int, int], metadata: str = "") -> None:
        rows = {TopicPartition(self.topic, n): (offset, metadata) for n, offset in offsets.items()}
        self.fake.stored.setdefault(group, {}).update(rows)

    @asynccontextmanager
    async def unstable(self, group: str) -> AsyncIterator[None]:
        self.fake.unstable.add(group)
        yield
        self.fake.unstable.discard(group)
        await self.consumed(group, {0: 9})

    async def restart(self) -> None:
        return None


class RealGroupStage:
    """Groups of an embedded cluster, made by aiokafka's consumers."""

    def __init__(self, topic: str, cluster: EmbeddedCluster, port: KafkaGroups) -> None:
        self.topic, self.cluster = topic, cluster
        self.port: Groups = port

    def joined(self, group: str) -> AbstractAsyncContextManager[Any]:
        return stock.joined(self.cluster, group, self.topic)

    async def consumed(self, group: str, offsets: Mapping[int, int], metadata: str = "") -> None:
        await stock.commit(self.cluster, group, self.topic, offsets, metadata)

    @asynccontextmanager
    async def unstable(self, group: str) -> AsyncIterator[None]:
        producer = AIOKafkaProducer(bootstrap_servers=self.cluster.bootstrap_servers, transactional_id=f"tx-{group}")
        await producer.start()
        try:
            async with producer.transaction():
                await producer.send_offsets_to_transaction({KafkaPartition(self.topic, 0): 9}, group)
                yield
        finally:
            await producer.stop()

    async def restart(self) -> None:
        for broker in self.cluster.brokers:
            await asyncio.to_thread(broker.stop)
            await asyncio.to_thread(self.cluster.restart, broker)


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.integration)])
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[GroupStage]:
    """A stage with a topic of its own."""
    topic = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_")).strip("-")
    if request.param == "fake":
        yield FakeGroupStage(topic)
        return
    cluster = request.getfixturevalue("source_cluster")
    await create_topics(cluster, {topic: PARTITIONS})
    client = cluster_client("b", cluster.bootstrap_servers)
    await client.open()
    try:
        yield RealGroupStage(topic, cluster, KafkaGroups(client))
    finally:
        await client.close()


def at(stage: GroupStage, number: int) -> TopicPartition:
    return TopicPartition(stage.topic, number)


async def test_a_group_is_active_while_it_has_members(stage: GroupStage) -> None:
    group = f"{stage.topic}-g"
    assert (await stage.port.states([group])).found == {group: GroupState.ABSENT}
    async with stage.joined(group):
        assert (await stage.port.states([group])).found == {group: GroupState.ACTIVE}
        with pytest.raises(GroupActive, match=group):
            await stage.port.commit(group, {at(stage, 0): (5, "")})
        assert (await stage.port.offsets([group])).found == {group: {}}
    assert (await stage.port.states([group])).found == {group: GroupState.INACTIVE}
    (listed,) = [one for one in (await stage.port.list_groups()).groups if one.group == group]
    assert (listed.protocol_type, listed.kind) == ("consumer", "classic")


async def test_what_consumers_committed_is_read_back(stage: GroupStage) -> None:
    group = f"{stage.topic}-g"
    await stage.consumed(group, {0: 7, 2: 2**40}, "über")
    answers = await stage.port.offsets([group, "nobody"])
    assert answers.found == {group: {at(stage, 0): (7, "über"), at(stage, 2): (2**40, "über")}, "nobody": {}}
    assert answers.failed == {}


async def test_a_commit_of_nobody_makes_a_group_and_may_go_back(stage: GroupStage) -> None:
    group = f"{stage.topic}-g"
    assert await stage.port.commit(group, {at(stage, 0): (10, "m"), at(stage, 1): (1, "")}) == {}
    assert await stage.port.commit(group, {at(stage, 0): (4, "")}) == {}
    assert (await stage.port.offsets([group])).found == {group: {at(stage, 0): (4, ""), at(stage, 1): (1, "")}}
    assert (await stage.port.states([group])).found == {group: GroupState.INACTIVE}


async def test_a_partition_that_is_not_there_is_refused_alone(stage: GroupStage) -> None:
    group = f"{stage.topic}-g"
    missing = TopicPartition(f"{stage.topic}-missing", 0)
    refused = await stage.port.commit(group, {missing: (1, ""), at(stage, 0): (3, "")})
    assert list(refused) == [missing]
    assert "UnknownTopicOrPartition" in refused[missing]
    assert (await stage.port.offsets([group])).found == {group: {at(stage, 0): (3, "")}}


async def test_hundreds_of_groups_are_asked_for_at_once(stage: GroupStage) -> None:
    names = [f"{stage.topic}-{n}" for n in range(450)]
    for number, name in list(enumerate(names))[::10]:
        await stage.port.commit(name, {at(stage, 0): (number, "")})
    answers = await stage.port.offsets(names)
    expected = {name: {at(stage, 0): (n, "")} if n % 10 == 0 else {} for n, name in enumerate(names)}
    assert answers.found == expected
    states = await stage.port.states(names)
    assert list(states.found.values()).count(GroupState.INACTIVE) == 45
    assert (answers.failed, states.failed) == ({}, {})


async def test_an_offset_in_an_open_transaction_is_not_stable(stage: GroupStage) -> None:
    group = f"{stage.topic}-g"
    await stage.consumed(group, {0: 3})
    async with stage.unstable(group):
        assert (await stage.port.offsets([group])).found == {group: {at(stage, 0): (3, "")}}
        if isinstance(stage.port, KafkaGroups):
            stage.port._patience_s = 5.0  # a single answer must not take so long
        answers = await stage.port.offsets([group], stable=True)
        assert answers.found == {}
        assert "UnstableOffsetCommit" in answers.failed[group]
    if isinstance(stage.port, KafkaGroups):
        stage.port._patience_s = 30.0
    assert (await stage.port.offsets([group], stable=True)).found == {group: {at(stage, 0): (9, "")}}


async def test_the_retention_of_commits_is_known(stage: GroupStage) -> None:
    assert await stage.port.retention_s() == 7 * 86_400.0


async def test_coordinators_that_were_away_answer_again(stage: GroupStage) -> None:
    group = f"{stage.topic}-g"
    await stage.port.commit(group, {at(stage, 0): (5, "")})
    await stage.restart()
    assert (await stage.port.offsets([group])).found == {group: {at(stage, 0): (5, "")}}
    assert await stage.port.commit(group, {at(stage, 0): (6, "")}) == {}


async def until_in(port: Groups, group: str, state: GroupState) -> None:
    while (await port.states([group])).found != {group: state}:  # noqa: ASYNC110 - a broker tells nobody
        await asyncio.sleep(0.1)


@pytest.mark.integration
async def test_a_group_of_the_newer_protocol(source_cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """Kafka's own consumer under KIP-848, which DescribeGroups does not see."""
    topic = group = "kip848"
    await create_topics(source_cluster, {topic: 1})
    client = cluster_client("b", source_cluster.bootstrap_servers)
    await client.open()
    port, where = KafkaGroups(client), TopicPartition(topic, 0)
    try:
        async with (
            stock.console_consumer(source_cluster, group, topic, tmp_path / "console.log") as log,
            asyncio.timeout(180),
        ):
            await until_in(port, group, GroupState.ACTIVE)
            with pytest.raises(GroupActive):
                await port.commit(group, {where: (5, "")})
            listed = [one for one in (await port.list_groups()).groups if one.group == group]
            assert [(one.protocol_type, one.kind) for one in listed] == [("consumer", "consumer")], log.read_text()
        async with asyncio.timeout(180):
            await until_in(port, group, GroupState.INACTIVE)
        assert await port.commit(group, {where: (0, "back")}) == {}
        assert (await port.offsets([group])).found == {group: {where: (0, "back")}}
    finally:
        await client.close()
