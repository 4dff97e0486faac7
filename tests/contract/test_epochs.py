"""The offset at which the source's history diverges: each Fetch version reports the same, on fake and broker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from engine.flow.ports.ports import Cluster, FetchOptions, PartitionFetch, Slice, SourceBroker
from engine.kafka.gateway import KafkaCluster
from policies.model import TopicPartition
from tests.contract.stage import FakeStage, RealStage, Stage
from tests.contract.test_ports_reading import Fresh
from tests.harness.older import FETCH, METADATA, OlderClient
from tests.harness.segments import batches

pytestmark = pytest.mark.contract

_VERSIONS = [{FETCH: 13}, {FETCH: 12}, {FETCH: 11}, {FETCH: 11, METADATA: 7}]


@asynccontextmanager
async def older(stage: Stage, caps: dict[int, int]) -> AsyncIterator[Cluster]:
    """Open the port of a client that speaks no newer versions; the fake has none."""
    if not isinstance(stage, RealStage):
        yield stage.port
        return
    client = OlderClient("older", stage.cluster.bootstrap_servers, caps)
    await client.open()
    try:
        yield KafkaCluster(client)
    finally:
        await client.close()


async def lead_anew(stage: Stage, where: TopicPartition) -> None:
    """Let a new leader epoch begin at the end of the log."""
    if isinstance(stage, FakeStage):
        stage.fake.sources[where].lead_anew()
    else:
        await stage.restart()


async def ask(broker: SourceBroker, *wanted: PartitionFetch) -> dict[TopicPartition, Slice]:
    found = await broker.fetch(wanted, FetchOptions(max_wait_s=0.0, min_bytes=0), Fresh())
    return {one.partition: one for one in found.slices}


@pytest.mark.parametrize("caps", _VERSIONS, ids=["v13", "v12", "v11", "v11 and old metadata"])
async def test_a_position_beyond_the_end_of_its_epoch_parts_there(stage: Stage, caps: dict[int, int]) -> None:
    where = await stage.source()
    await stage.data(where, 3)
    first = (await _epochs(stage, where))[-1]
    await lead_anew(stage, where)
    await stage.data(where, 4)
    second = (await _epochs(stage, where))[-1]
    assert second > first
    async with older(stage, caps) as port:
        leader = (await port.leaders([where]))[where]

        async def at(offset: int, last_epoch: int) -> Slice:
            """Ask as a lane does that has just been resumed."""
            broker = await port.source_broker(leader.node)
            try:
                return (await ask(broker, PartitionFetch(where, offset, leader.epoch, last_epoch, 1 << 20)))[where]
            finally:
                await broker.close()

        # What was fetched to offset 5 in the first epoch is not what lies there now.
        found = await at(5, first)
        assert (found.diverging, found.fault, found.end - found.start) == ((first, 3), None, 0)
        for offset, last_epoch in ((3, first), (2, first), (5, second), (5, -1)):
            found = await at(offset, last_epoch)
            assert (found.diverging, found.fault, found.end > found.start) == (None, None, True)
        found = await at(9, second)
        assert (found.diverging, found.fault) == ((second, 7), None)


async def test_a_leader_says_where_the_log_of_an_epoch_ends(stage: Stage) -> None:
    where = await stage.source()
    await stage.data(where, 3)
    first = (await _epochs(stage, where))[-1]
    await lead_anew(stage, where)
    await stage.data(where, 4)
    second = (await _epochs(stage, where))[-1]
    told = [(await stage.port.epoch_ends({where: epoch}))[where] for epoch in (first, second - 1, second, second + 9)]
    assert told == [(first, 3), (first, 3), (second, 7), (-1, -1)]
    assert await stage.port.epoch_ends({TopicPartition("no-such-topic", 0): first}) == {}


async def _epochs(stage: Stage, where: TopicPartition) -> list[int]:
    """Read the leader epochs of the batches."""
    if isinstance(stage, FakeStage):
        return [batch.epoch for batch in stage.fake.sources[where].batches]
    assert isinstance(stage, RealStage)
    return [one.leader_epoch for one in batches(stage.cluster, *where)]


async def test_a_stale_view_of_the_leader_is_a_fault_and_stops_nobody_else(stage: Stage) -> None:
    where, other = await stage.source(), TopicPartition(stage.name, 99)
    await stage.data(where, 3)
    last = (await _epochs(stage, where))[-1]
    async with older(stage, {FETCH: 11}) as port:
        leader = (await port.leaders([where]))[where]
        broker = await port.source_broker(leader.node)
        found = await ask(
            broker,
            PartitionFetch(where, 1, leader.epoch + 5, last, 1 << 20),
            PartitionFetch(other, 0, leader.epoch, last, 1 << 20),
        )
        faults = {one.partition: one.fault for one in found.values()}
        stale, missing = faults[where], faults[other]
        assert stale is not None
        assert missing is not None
        assert (stale.name, stale.retry, missing.code, missing.retry) == ("UnknownLeaderEpoch", True, 3, True)
        found = await ask(
            broker,
            PartitionFetch(where, 1, leader.epoch, last, 1 << 20),
            PartitionFetch(other, 0, leader.epoch, last, 1 << 20),
        )
        assert found[where].end > found[where].start
        assert found[other].fault is not None
        await broker.close()
