"""Runs one after another: no duplicate, no loss, whatever ended the previous run."""

import json

import msgspec
import pytest

from engine.core.events.events import OwnershipLost, ProducerChanged, Resumed, SourceGap, TargetGap
from engine.flow.ports.ports import LATEST
from engine.wire.murmur2 import partition_for_key
from policies.model import TopicPartition
from tests.harness.admin import delete_records
from tests.harness.compare import assert_identical, read_topic
from tests.harness.load import Sent, numbered, produce
from tests.harness.mirror import Mirror

pytestmark = pytest.mark.integration


def seldom(mirror: Mirror) -> Mirror:
    """Have positions written only when a lane has its owner, and when it drains: what is cut off leaves a tail."""
    mirror.options = msgspec.structs.replace(mirror.options, flush_s=3600.0, unsynced_s=3600.0, epoch_s=3600.0)
    return mirror


@pytest.mark.parametrize("drain", [True, False], ids=["drained", "cut off"])
async def test_run_after_run(mirror: Mirror, drain: bool) -> None:
    topic = f"again-{drain}"
    copied = await seldom(mirror).topic(topic, 3)
    for turn in range(4):
        for partition in range(3):
            await produce(mirror.source, topic, partition, numbered(100, first=turn * 100))
        async with mirror.run(drain=drain) as run:
            await run.until_copied()
            told = {event.lane.partition: event for event in run.told(Resumed)}
            tails = {event.tail_records for event in told.values()}
            assert tails == ({0} if drain or turn == 0 else {100})
        assert await assert_identical(mirror.source, mirror.target, topic, copied) == (turn + 1) * 300


async def test_positions_are_mm2s_with_fields_of_ours(mirror: Mirror) -> None:
    await mirror.topic("mm2")
    await produce(mirror.source, "mm2", 0, numbered(10))
    async with mirror.run() as run:
        await run.until_copied()
    records = [one for part in (await read_topic(mirror.target, mirror.positions_topic)).values() for one in part]
    value = json.loads(records[-1].value or b"")
    assert value["offset"] == 9
    assert (value["source_next"], value["sequence"], value["assignment_epoch"]) == (10, 10, 1)
    assert all(not isinstance(field, dict | list) for field in value.values())


async def test_mm2s_own_position_is_taken_over(mirror: Mirror) -> None:
    copied = await mirror.topic("taken")
    await produce(mirror.source, "taken", 0, numbered(30))
    await produce(mirror.target, copied, 0, numbered(12))  # what MM2 has copied
    key = b'["MirrorSourceConnector",{"cluster":"%s","partition":0,"topic":"taken"}]' % mirror.flow.source.encode()
    partition = partition_for_key(key, mirror.options.positions_partitions)
    await produce(mirror.target, mirror.positions_topic, partition, [Sent(key, b'{"offset":11}')])
    async with mirror.run() as run:
        await run.until_copied()
        assert run.told(Resumed)[0].source_offset == 12
    found = (await read_topic(mirror.target, copied))[0]
    assert [one.value for one in found] == [one.value for one in numbered(30)]


async def test_a_source_gap_at_start_and_while_running(mirror: Mirror) -> None:
    copied = await mirror.topic("gap", 3)
    for partition in range(3):
        await produce(mirror.source, "gap", partition, numbered(100))
    async with mirror.run() as run:
        await run.until_copied()
    for partition in range(3):
        await produce(mirror.source, "gap", partition, numbered(100, first=100))
    await delete_records(mirror.source, "gap", {1: 130})
    async with mirror.run() as run:
        event = await run.until_told(SourceGap)
        assert (event.lane.partition, event.first, event.last) == (1, 100, 129)
        await run.until(lambda: run.lane("gap", 2).source_next == 200, "the others go on")
        run.copier.pause(None)
        await run.until(lambda: run.copier.router.pool.used_bytes == 0, "no fetch is on its way any more")
        await produce(mirror.source, "gap", 2, numbered(50, first=200))
        await delete_records(mirror.source, "gap", {2: 250})
        await produce(mirror.source, "gap", 2, numbered(50, first=250))
        run.copier.resume(None)
        await run.until(lambda: any(one.lane.partition == 2 for one in run.told(SourceGap)), "a gap in partition 2")
        later = next(one for one in run.told(SourceGap) if one.lane.partition == 2)
        assert (later.first, later.last) == (200, 249)
    found = await read_topic(mirror.target, copied)
    assert [len(found[partition]) for partition in range(3)] == [200, 100, 200]


async def test_an_older_assignment_stands_down(mirror: Mirror) -> None:
    copied = await mirror.topic("older")
    await produce(mirror.source, "older", 0, numbered(50))
    async with mirror.run(epoch=7) as run:
        await run.until_copied()
    async with mirror.run(epoch=6) as run:
        event = await run.until_told(OwnershipLost)
        assert (event.assignment_epoch, event.other_epoch) == (6, 7)
    assert await assert_identical(mirror.source, mirror.target, "older", copied) == 50


async def test_a_target_that_lost_its_tail_to_retention(mirror: Mirror) -> None:
    """The producer state of the broker still says how far we came (DescribeProducers, asked before the barrier)."""
    copied = await seldom(mirror).topic("eaten-tail")
    await produce(mirror.source, "eaten-tail", 0, numbered(50))
    async with mirror.run() as run:
        await run.until_copied()
    async with mirror.run(drain=False) as run:
        await run.until_copied()
        await run.until(
            lambda: run.copier.drivers[TopicPartition("eaten-tail", 0)].positions.settled, "the first position"
        )
        await produce(mirror.source, "eaten-tail", 0, numbered(50, first=50))
        await run.until_copied()
    end = 50 + 50  # nobody was there before the first run, and its owner had left before the second: no markers
    where = TopicPartition(copied, 0)
    async with mirror.asking_target() as target:
        assert await target.offsets([where], LATEST) == {where: end}
    await delete_records(mirror.target, copied, {0: end})
    await produce(mirror.source, "eaten-tail", 0, numbered(50, first=100))
    async with mirror.run() as run:
        await run.until_copied()
        assert run.told(Resumed)[0].how == "producer state"
        assert run.told(TargetGap) == []
        assert run.told(ProducerChanged) == []
    found = (await read_topic(mirror.target, copied))[0]
    assert [one.value for one in found] == [one.value for one in numbered(50, first=100)]
