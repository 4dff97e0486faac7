"""Lanes whose leaders are unreachable wait alone: the others are acquired without them."""

import asyncio
from collections.abc import Collection, Sequence

import pytest

from engine.base.errors import BrokerUnreachable
from engine.core.lane.states import State
from engine.flow.ports.ports import Leader, ProducerState
from policies.model import TopicPartition
from tests.fakes.cluster import FakeCluster
from tests.unit.engine.flow.stage import Stage, until


def part(cluster: FakeCluster, partition: TopicPartition, node: int) -> list[TopicPartition]:
    """Let a broker that is down lead a partition; return what is fenced on the cluster from now on."""
    cluster.leader[partition] = Leader(node, cluster.leader[partition].epoch, cluster.leader[partition].topic_id)
    cluster.down.add(node)
    fenced: list[TopicPartition] = []

    def fail(asked: str, partitions: Sequence[TopicPartition]) -> None:
        if asked == "acquire":
            fenced.append(partitions[0])
        led = {cluster.leader[one].node for one in partitions if one in cluster.leader}
        if asked in ("offsets", "producers") and led & cluster.down:
            raise BrokerUnreachable(f"{cluster.name}:{node}", "down")

    cluster.fail = fail
    return fenced


@pytest.mark.parametrize("side", ["source", "target"])
async def test_a_leader_that_cannot_be_reached_holds_only_its_own_lanes(side: str) -> None:
    stage = Stage(6)
    for source in stage.sources:
        source.data(5)
    fenced = part(stage.b, TopicPartition("A.t", 0), 1)
    stage.b.down.clear()
    cluster, partition = (stage.a, TopicPartition("t", 4)) if side == "source" else (stage.b, TopicPartition("A.t", 4))
    if side == "source":
        part(cluster, partition, 7)
    else:
        fenced = part(cluster, partition, 7)
    stage.assign()
    async with stage.running():
        await until(lambda: all(stage.whole(index) for index in (0, 1, 2, 3, 5)))
        reason = f"{side} broker 7 cannot be reached: {cluster.name}:7: cannot connect: down"
        await until(lambda: stage.driver(4).health.reason == reason)
        assert stage.driver(4).lane.state is State.ACQUIRING
        assert sorted(fenced) == [TopicPartition("A.t", index) for index in (0, 1, 2, 3, 5)]  # one barrier each
        cluster.down.clear()
        await until(lambda: stage.whole(4))


class Silent(FakeCluster):
    """A cluster one of whose brokers takes connections, and answers no question before `answers` is set."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.silent, self.answers = 7, asyncio.Event()

    async def unreachable(self, nodes: Collection[int], *, hurry: bool = False) -> dict[int, str]:
        is_silent = hurry and not self.answers.is_set()
        return {self.silent: "no sign of life"} if is_silent and self.silent in nodes else {}

    async def offsets(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        await self._wait(partitions)
        return await super().offsets(partitions, timestamp_ms)

    async def producers(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, list[ProducerState]]:
        await self._wait(partitions)
        return await super().producers(partitions)

    async def _wait(self, partitions: Sequence[TopicPartition]) -> None:
        if any(self.leader[partition].node == self.silent for partition in partitions):
            await self.answers.wait()


@pytest.mark.parametrize("side", ["source", "target"])
async def test_a_leader_that_keeps_silent_holds_only_its_own_lanes(side: str) -> None:
    stage = Stage(6, Silent)
    for source in stage.sources:
        source.data(5)
    cluster, partition = (stage.a, TopicPartition("t", 4)) if side == "source" else (stage.b, TopicPartition("A.t", 4))
    cluster.leader[partition] = Leader(7, cluster.leader[partition].epoch, cluster.leader[partition].topic_id)
    stage.assign()
    async with stage.running():
        await until(lambda: all(stage.whole(index) for index in (0, 1, 2, 3, 5)))
        assert stage.driver(4).health.reason == f"{side} broker 7 cannot be reached: no sign of life"
        assert stage.driver(4).lane.state is State.ACQUIRING
        assert isinstance(cluster, Silent)
        cluster.answers.set()
        await until(lambda: stage.whole(4))
