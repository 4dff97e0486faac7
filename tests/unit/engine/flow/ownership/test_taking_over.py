"""The owner of a lane, and other writers to its target."""

from collections.abc import Mapping

import msgspec
import pytest

from engine.base.clock import pause
from engine.core.events.events import (
    ForeignWriter,
    IdentityChanged,
    LaneRefused,
    OwnershipLost,
    ProducerChanged,
    Resumed,
    UnfencedOwnership,
)
from engine.core.lane.actions import Inspect
from engine.core.lane.states import State
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ownership.position_recovery import FencedLane, PreFenceState
from engine.flow.ports.ports import Leader
from engine.wire.encode import encode_batch
from policies.model import TopicPartition
from tests.fakes.brokers import turns
from tests.unit.engine.flow.stage import Stage, stopped_by_another_writer, until


async def test_a_new_copier_goes_on_where_the_last_one_was_drained() -> None:
    stage = Stage()
    stage.sources[0].data(3)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
    stage.sources[0].data(2)
    stage.copier = stage.new_copier()
    stage.assign(epoch=2)
    async with stage.running():
        await until(stage.whole)
    (resumed,) = stage.told(Resumed)
    assert isinstance(resumed, Resumed)
    assert (resumed.how, resumed.source_offset, resumed.tail_records) == ("position", 3, 0)


async def test_waves_of_lanes_wait_for_each_other_where_reads_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wave reads the positions of all lanes: waves of one copier at one time make each other slower."""
    stage = Stage(400)
    acquisition = stage.copier._acquisitions._acquisition
    behind, waves = acquisition.behind, list[int]()
    fence = acquisition.fence

    async def slow_fence(driver: LaneDriver, before: PreFenceState) -> FencedLane:
        await pause(0.1 * int(driver.name.source.partition))
        return await fence(driver, before)

    async def slow_reads(fenced: Mapping[LaneDriver, FencedLane], *, waited: bool) -> dict[LaneDriver, FencedLane]:
        waves.append(len(fenced))
        await pause(2.0)
        return await behind(fenced, waited=waited)

    monkeypatch.setattr(acquisition, "fence", slow_fence)
    monkeypatch.setattr(acquisition, "behind", slow_reads)
    stage.assign()
    async with stage.running():
        await until(lambda: all(stage.state(index) is State.COPYING for index in range(400)))
    assert sum(waves) == 400
    assert len(waves) < 30, "without the rest there were one for each 0.15 s of these 40 s"


async def test_a_barrier_of_somebody_else_behind_ours_begins_the_taking_over_anew() -> None:
    """A former owner came back between our barrier and our reads: what they say is not final."""
    stage = Stage()
    stage.sources[0].data(3)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
    stage.sources[0].data(2)
    stage.copier = stage.new_copier()
    stage.assign(epoch=2)
    came_back = False

    def come_back(what: str) -> None:
        nonlocal came_back
        if what == "acquired" and not came_back:
            came_back = True
            stage.take_away()

    stage.b.before = come_back
    async with stage.running():
        await until(stage.whole)
    (resumed,) = stage.told(Resumed)
    assert isinstance(resumed, Resumed)
    assert resumed.target_offset == stage.targets[0].end - 2
    assert stage.told(OwnershipLost) == []


async def test_a_lane_stands_down_before_a_higher_assignment_epoch() -> None:
    stage = Stage()
    stage.sources[0].data(2)
    stage.assign(epoch=7)
    async with stage.running():
        await until(stage.whole)
    stage.copier = stage.new_copier()
    stage.assign(epoch=6)
    async with stage.running():
        await until(lambda: stage.state() is State.FAILED)
    assert len(stage.told(OwnershipLost)) == 1


async def test_a_topic_that_was_made_anew_stops_its_lane() -> None:
    stage = Stage()
    stage.sources[0].data(2)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        stage.a.leader[TopicPartition("t", 0)] = Leader(1, 0, "another id")
        stage.copier.router.leaders.look_up(stage.copier.drivers.values())
        await until(lambda: stage.state() is State.FAILED)
    assert len(stage.told(IdentityChanged)) == 1


async def test_records_of_another_writer_between_two_runs_stop_the_lane() -> None:
    stage = Stage()
    stage.sources[0].data(2)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
    first, last = stage.targets[0].foreign(3)
    event = await stopped_by_another_writer(stage)
    assert (event.first, event.last, event.stopped) == (first, last, True)


async def test_records_of_another_writer_while_copying_stop_the_lane() -> None:
    stage = Stage()
    stage.sources[0].data(2)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        stage.targets[0].foreign(1)
        stage.sources[0].data(1)
        stage.a.grow()
        await until(lambda: stage.state() is State.FAILED)
    assert len(stage.told(ForeignWriter)) == 1


async def test_markers_of_our_own_between_batches_are_not_another_writers() -> None:
    stage = Stage()
    stage.sources[0].data(2)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        producer = stage.driver().producer
        assert producer is not None
        stage.targets[0].marker(producer.producer_id, producer.epoch)
        stage.sources[0].data(2)
        stage.a.grow()
        await until(stage.whole)
    assert stage.told(ForeignWriter) == []


async def test_a_look_into_batches_of_our_own_finds_nobody_else() -> None:
    stage = Stage()
    stage.sources[0].data(2)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        ours = stage.targets[0].batches[-1].header
        stage.copier._failures.perform(stage.driver(), Inspect(ours.base_offset, ours.next_offset - 1))
        await turns()
        assert stage.state() is State.COPYING
    assert stage.told(ForeignWriter) == []


@pytest.mark.parametrize("fenced", [True, False])
async def test_a_new_producer_id_takes_over_by_detection(fenced: bool) -> None:
    stage = Stage()
    stage.sources[0].data(2)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
    stage.b.transactional.clear()  # it expired
    stage.b.transactional["another"] = (9999, 0)
    stage.b.fenced = fenced
    stage.copier = stage.new_copier()
    stage.assign(epoch=2)
    stage.sources[0].data(2)
    async with stage.running():
        await until(stage.whole)
    assert len(stage.told(ProducerChanged if fenced else UnfencedOwnership)) == 1


async def test_an_unreadable_position_stops_its_own_lane() -> None:
    stage = Stage(2)
    for source in stage.sources:
        source.data(2)
    stage.assign(only=[0])
    async with stage.running():
        await until(stage.whole)
    newest = stage.positions.records()[-1]
    newer = msgspec.structs.replace(newest, value=(newest.value or b"").replace(b'"raymirror":2', b'"raymirror":9'))
    stage.positions.append(bytes(encode_batch([newer], 0)))
    stage.copier = stage.new_copier()
    stage.assign(epoch=2)
    async with stage.running():
        await until(lambda: stage.whole(1) and stage.state(0) is State.FAILED)
    (refused,) = stage.told(LaneRefused)
    assert "newer raymirror" in refused.text()
