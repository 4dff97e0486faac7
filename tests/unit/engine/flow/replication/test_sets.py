"""Partition sets that are added, removed, added again and moved."""

import asyncio

import msgspec
import pytest

from engine.core.events.events import OwnershipLost
from engine.core.lane.states import State
from engine.core.position.position import Position, decode_value
from engine.flow.io import outbox
from engine.flow.ports.ports import Leader
from policies.model import PartitionSet, TopicPartition
from tests.fakes.brokers import turns
from tests.fakes.target_broker import FakeTargetBroker
from tests.unit.engine.flow.stage import FLOW, POSITIONS, TERMS, Stage, lane_name, until


def epochs(stage: Stage) -> dict[int, int]:
    return {lane.lane.partition: lane.epoch for lane in stage.copier.progress().lanes}


async def begin_release(stage: Stage, group: asyncio.TaskGroup) -> asyncio.Task[None]:
    """Release set "s" while every lane of it has a position to write first."""
    for driver in stage.copier.drivers.values():
        driver.lane.adopt_epoch(driver.ownership.assignment_epoch)
    releasing = group.create_task(stage.copier.release("s"))
    await turns(1)
    assert all(driver.ownership.leaving for driver in stage.copier.drivers.values())
    return releasing


async def test_a_set_assigned_while_it_is_released_joins_again_at_the_new_epoch() -> None:
    stage = Stage()
    stage.sources[0].data(3)
    stage.assign(epoch=1)
    async with stage.running(), asyncio.TaskGroup() as group:
        await until(stage.whole)
        released = stage.driver()
        releasing = await begin_release(stage, group)
        stage.assign(epoch=2)
        stage.assign(epoch=1)  # said late: an older order
        await releasing
        assert stage.driver() is not released
        stage.sources[0].data(3)
        stage.a.grow()
        await until(stage.whole)
        assert epochs(stage) == {0: 2}
    assert stage.stored().assignment_epoch == 2


async def test_a_release_takes_back_an_assignment_that_waited_for_the_last_one() -> None:
    stage = Stage()
    stage.assign(epoch=1)
    async with stage.running(), asyncio.TaskGroup() as group:
        await until(lambda: stage.driver().positions.settled)
        first = await begin_release(stage, group)
        stage.assign(epoch=2)
        await stage.copier.release("s")
        await first
        assert stage.copier.drivers == {}


async def test_a_lane_that_left_the_set_while_it_was_to_return_does_not() -> None:
    stage = Stage(2)
    stage.assign(epoch=1)
    async with stage.running(), asyncio.TaskGroup() as group:
        await until(lambda: all(driver.positions.settled for driver in stage.copier.drivers.values()))
        releasing = await begin_release(stage, group)
        stage.assign(epoch=2)
        stage.assign(epoch=2, only=[1])
        await releasing
        assert list(epochs(stage)) == [1]


async def test_two_releases_and_a_drain_at_once_end_with_durable_positions() -> None:
    stage = Stage(2)
    for source in stage.sources:
        source.data(3)
    stage.assign(set_id="one", only=[0])
    stage.assign(set_id="two", only=[1])
    async with stage.running(), asyncio.TaskGroup() as group:
        await until(lambda: stage.whole(0) and stage.whole(1))
        group.create_task(stage.copier.release("one"))
        group.create_task(stage.copier.release("one"))
        group.create_task(stage.copier.drain())
        group.create_task(stage.copier.release("two"))
    assert stage.copier.drivers == {}
    assert stage.stored().source_next == 3


async def test_nothing_is_taken_while_the_copier_drains() -> None:
    stage = Stage()
    stage.assign(epoch=1)
    async with stage.running(), asyncio.TaskGroup() as group:
        await until(lambda: stage.driver().positions.settled)
        await begin_release(stage, group)
        stage.assign(epoch=2)
        group.create_task(stage.copier.drain())
        await turns(1)
        stage.assign(epoch=3)
    assert stage.copier.drivers == {}


async def test_a_release_that_nobody_waits_for_any_more_leaves_no_lane_behind() -> None:
    stage = Stage()
    stage.sources[0].data(3)
    stage.targets[0].refuses = lambda _key: True
    stage.assign()
    async with stage.running(), asyncio.TaskGroup() as group:
        await until(lambda: stage.state() is State.REFUSED)
        stage.copier.hold()  # nothing can settle now
        pieces = stage.driver().lane.pieces
        pieces.in_flight.extend(pieces.waiting)
        releasing = group.create_task(stage.copier.release("s"))
        await turns(5)
        releasing.cancel()
        await turns(5)
        assert stage.copier.drivers == {}


async def test_a_higher_epoch_of_lanes_we_hold_is_written_down_without_a_pause() -> None:
    stage = Stage()
    stage.sources[0].data(3)
    stage.assign(epoch=1)
    async with stage.running():
        await until(stage.whole)
        producer = stage.driver().producer
        stage.assign(epoch=4)
        await until(lambda: stage.stored().assignment_epoch == 4)
        assert (stage.driver().producer, stage.state()) == (producer, State.COPYING)
        stage.assign(epoch=3, only=[])
        assert epochs(stage) == {0: 4}
        stage.sources[0].data(3)
        stage.a.grow()
        await until(stage.whole)


async def test_a_lane_goes_over_to_another_set_of_ours_without_a_pause() -> None:
    stage = Stage(2)
    stage.assign(set_id="both", epoch=1)
    async with stage.running():
        await until(lambda: all(driver.positions.settled for driver in stage.copier.drivers.values()))
        driver = stage.driver(1)
        stage.assign(set_id="hot", epoch=2, only=[1])
        stage.assign(set_id="both", epoch=1, only=[0])
        await turns()
        assert stage.driver(1) is driver
        assert {(lane.set_id, lane.epoch) for lane in stage.copier.progress().lanes} == {("both", 1), ("hot", 2)}


async def test_a_lane_whose_epoch_grows_while_it_is_acquired_is_owned_at_the_higher_one() -> None:
    stage = Stage()
    stage.sources[0].data(3)
    stage.b.before = lambda _asked: stage.assign(epoch=2)
    stage.assign(epoch=1)
    async with stage.running():
        await until(stage.whole)
        assert stage.stored().assignment_epoch == 2


async def test_a_lane_that_stood_down_is_acquired_anew_at_a_higher_epoch() -> None:
    stage = Stage()
    stage.sources[0].data(3)
    stage.assign(epoch=5)
    async with stage.running():
        await until(stage.whole)
    stage.copier = stage.new_copier()
    stage.assign(epoch=4)
    async with stage.running():
        await until(lambda: stage.told(OwnershipLost))
        stage.sources[0].data(2)
        stage.assign(epoch=6)
        await until(stage.whole)
        assert stage.stored().assignment_epoch == 6


async def test_without_fences_a_higher_epoch_is_a_new_acquisition() -> None:
    stage = Stage()
    stage.b.fenced = False
    stage.sources[0].data(3)
    stage.assign(epoch=1)
    async with stage.running():
        await until(stage.whole)
        producer = stage.driver().producer
        stage.assign(epoch=2)
        await until(lambda: stage.stored().assignment_epoch == 2)
        assert stage.driver().producer != producer


async def test_what_changes_before_the_copier_runs_counts() -> None:
    stage = Stage(2)
    for source in stage.sources:
        source.data(1)
    stage.assign(epoch=1)
    stage.assign(epoch=1, only=[0])
    assert list(stage.copier.drivers) == [TopicPartition("t", 0)]
    lanes = (lane_name(1),)
    stage.copier.assign(PartitionSet(set_id="other", flow=FLOW, epoch=2, lanes=lanes))
    async with stage.running():
        await until(lambda: stage.whole(0) and stage.whole(1))


async def test_a_lane_that_is_gone_is_not_remembered_by_any_outbox() -> None:
    stage = Stage()
    stage.sources[0].data(3)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        await stage.copier.release("s")
        router = stage.copier.router
        for door in router._outboxes.values():
            assert (door.box._ready, door.box._gone, door.lanes) == ({}, set(), {})
        assert router._lane_routes == {}


async def test_a_lane_that_had_failed_is_told_as_failed_by_a_copier_that_has_drained() -> None:
    stage = Stage(2)
    for source in stage.sources:
        source.data(3)
    stage.assign(epoch=1)
    async with stage.running():
        await until(stage.whole)
        stage.driver().fail(
            OwnershipLost(flow=FLOW, lane=lane_name(0).source, assignment_epoch=1, other_epoch=2, other_deployment="x")
        )
        await stage.copier.drain()
        assert [lane.state for lane in stage.copier.progress().lanes] == ["failed", "stopped"]


async def test_a_lane_whose_broker_keeps_silent_does_not_hold_the_others_of_its_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox, "SILENT_S", 0.05)
    stage = Stage(2)
    stage.copier = stage.new_copier(msgspec.structs.replace(TERMS, drain_s=3600.0))
    there = TopicPartition("A.t", 1)
    stage.b.leader[there] = Leader(7, stage.b.leader[there].epoch, stage.b.leader[there].topic_id)
    stage.assign()
    async with stage.running(), asyncio.timeout(120):
        await until(lambda: all(driver.positions.settled for driver in stage.copier.drivers.values()))
        stage.b.mute.add(7)
        for source in stage.sources:
            source.data(3)
        stage.a.grow()
        await until(lambda: stage.whole(0) and stage.driver(1).lane.in_flight)
        await stage.copier.release("s")
        assert stage.copier.drivers == {}
        stage.b.thaw(7)
        stage.assign(epoch=2)
        await until(lambda: stage.whole(0) and stage.whole(1))


async def begin_silence(stage: Stage, group: asyncio.TaskGroup, *, drain_s: float) -> None:
    """Run a copier whose positions' broker falls silent with a position on its way."""
    positions = TopicPartition(POSITIONS, 0)
    stage.b.leader[positions] = Leader(8, stage.b.leader[positions].epoch, stage.b.leader[positions].topic_id)
    options = msgspec.structs.replace(TERMS, drain_s=drain_s, request_timeout_s=0.5, flush_s=0.05)
    stage.copier = stage.new_copier(options)
    stage.sources[0].data(3)
    stage.assign()
    group.create_task(stage.copier.run())
    await until(lambda: stage.whole() and stage.driver().positions.settled)
    stage.b.frozen.add(8)
    stage.sources[0].data(3)
    stage.a.grow()
    await until(lambda: stage.driver().positions.writing)


async def test_a_lane_that_was_released_does_not_send_its_position_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no fence keeps it out it would be the newest one, and the next owner would go on from there."""
    monkeypatch.setattr(outbox, "SILENT_S", 0.05)
    monkeypatch.setattr(outbox, "_LOOK_S", 0.02)
    stage = Stage()
    stage.b.fenced = False
    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        await begin_silence(stage, group, drain_s=0.1)
        before, connections = len(stage.positions.records()), len(stage.b.connections)
        position, connect, may_connect = stage.driver().position_appender, stage.b.target_broker, asyncio.Event()

        async def connect_when_told(node: int) -> FakeTargetBroker:
            await may_connect.wait()
            return await connect(node)

        monkeypatch.setattr(stage.b, "target_broker", connect_when_told)
        await stage.copier.release("s")
        stage.b.frozen.discard(8)  # its connection was broken, not the broker: what was sent on it is lost
        await until(lambda: position.stream._resend)
        may_connect.set()
        await until(lambda: len(stage.b.connections) > connections)
        await turns(50)
        stage.assign(epoch=2)  # over the same connections, behind what would have been sent
        await until(lambda: len(stage.positions.records()) > before)
        newer = [decode_value(record.value) for record in stage.positions.records()[before:]]
        assert {one.assignment_epoch for one in newer if isinstance(one, Position)} == {2}
        await stage.copier.drain()


async def test_where_no_fence_parts_us_from_the_next_owner_a_silent_broker_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox, "SILENT_S", 0.0)
    stage = Stage()
    stage.b.fenced = False
    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        await begin_silence(stage, group, drain_s=3600.0)
        releasing = group.create_task(stage.copier.release("s"))
        await asyncio.wait([releasing], timeout=0.3)
        assert not releasing.done()
        stage.b.thaw(8)
        await releasing
        await stage.copier.drain()
