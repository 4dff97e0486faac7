"""When positions are written that the copying itself does not need."""

import asyncio

import msgspec
import pytest

from engine.base.clock import now_s
from engine.flow.ports.ports import Leader
from engine.flow.replication import maintenance as maintenance
from policies.model import TopicPartition
from tests.fakes.source_log import LEADER_EPOCH
from tests.unit.engine.flow.replication.test_syncs import TOPIC, SyncStage
from tests.unit.engine.flow.stage import TERMS, Stage, until

SELDOM = msgspec.structs.replace(TERMS, flush_s=1000.0, unsynced_s=0.05)


def synced(epoch_s: float = 0.0) -> SyncStage:
    stage = SyncStage()
    options = msgspec.structs.replace(stage.options, flush_s=1000.0, unsynced_s=0.05, epoch_s=epoch_s)
    stage.copier = stage.new_copier(options)
    return stage


async def test_without_syncs_positions_tell_how_far_a_lane_is() -> None:
    stage = Stage()
    stage.copier = stage.new_copier(SELDOM)
    stage.sources[0].data(3)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.positions.records() and stage.stored().source_next == 3)


async def test_a_lane_that_syncs_tell_of_writes_one_position_for_each_leader_of_the_source() -> None:
    """Without the leader epoch a failback is refused if mirror and source die before the next flush."""
    stage = synced()
    stage.sources[0].data(3)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.whole() and stage.at_end() and stage.stored().source_leader_epoch == LEADER_EPOCH)
        assert stage.stored().source_next == 3
        await rests_at(stage, 3)
        stage.sources[0].data(2)
        stage.a.grow()
        await until(lambda: stage.whole() and stage.at_end() and stage.answered())
        await rests_at(stage, 3)
        stage.sources[0].lead_anew()
        stage.sources[0].data(2)
        stage.a.grow()
        await until(lambda: stage.whole() and stage.stored().source_leader_epoch == LEADER_EPOCH + 1)
        assert stage.stored().source_next == 7
        await rests_at(stage, 7)
        stage.sources[0].data(1)
        stage.a.grow()
        await until(lambda: stage.whole() and stage.at_end() and stage.answered())
        await rests_at(stage, 7)
    assert stage.stored().source_next == 8


async def test_lanes_that_owe_a_leader_epoch_are_looked_for_at_an_interval() -> None:
    """Else what is cut off in the meantime leaves a tail: `epoch_s` bounds for how long that may be."""
    stage = synced(epoch_s=1000.0)
    stage.sources[0].data(3)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.whole() and stage.at_end() and stage.answered())
        assert stage.driver().positions.owes_epoch
        await rests_at(stage, 0)
    assert (stage.stored().source_next, stage.stored().source_leader_epoch) == (3, LEADER_EPOCH)
    assert not stage.driver().positions.owes_epoch


async def rests_at(stage: SyncStage, source_next: int) -> None:
    """Let some passes go by: the position stays, and no other one is written."""
    written, beats = len(stage.positions.records()), stage.copier.maintenance.beat
    await until(lambda: stage.copier.maintenance.beat > beats + 3)
    assert (len(stage.positions.records()), stage.stored().source_next) == (written, source_next)


async def test_what_no_sync_can_tell_the_position_does() -> None:
    """All that came was aborted: there is no record that a sync could name."""
    stage = synced()
    stage.sources[0].aborted_data(2, 7)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.positions.records() and stage.stored().source_next == 3)


async def test_while_syncs_cannot_be_written_positions_tell_it() -> None:
    stage = synced()
    stage.home.leader[TopicPartition(TOPIC, 0)] = Leader(-1, 0, "id")
    stage.sources[0].data(3)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.positions.records() and stage.stored().source_next == 3)
    assert stage.whole()


async def test_a_copier_at_rest_passes_once_a_second_and_when_its_lease_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []

    async def pause(duration_s: float) -> None:
        pauses.append(duration_s)
        await asyncio.sleep(0.001)

    monkeypatch.setattr(maintenance, "pause", pause)
    monkeypatch.setattr(maintenance, "beat_s", lambda every_s: every_s)
    monkeypatch.setattr(maintenance, "_CALM_BYTES", 0)
    stage = Stage()
    stage.copier = stage.new_copier(msgspec.structs.replace(TERMS, flush_s=60.0, unsynced_s=5.0))
    stage.assign()
    async with stage.running():
        await until(lambda: 1.0 in pauses)
        stage.sources[0].data(3)
        stage.a.grow()
        await until(lambda: 0.2 in pauses)

        def cut_short() -> bool:
            """Renew the lease each time: a machine at its limit may not look again before it is over."""
            stage.copier.lease_until_s = now_s() + 0.9
            return any(0.2 < one < 1.0 for one in pauses)

        await until(cut_short)
        await until(lambda: not stage.copier.router.may_fetch(stage.driver()) and pauses[-1] == 0.02)
        stage.copier.lease_until_s = now_s() + 1000
        await until(lambda: pauses[-1] == 1.0)
    assert stage.whole()


async def test_a_record_now_and_then_is_no_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with heartbeats, which every flow copies."""
    stage = Stage()
    stage.copier = stage.new_copier(msgspec.structs.replace(TERMS, flush_s=60.0, unsynced_s=5.0))
    stage.sources[0].data(1)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        await asyncio.sleep(2.0)
        beats = stage.copier.maintenance.beat
        for _ in range(10):
            stage.sources[0].data(1)
            stage.a.grow()
            await asyncio.sleep(1.0)
        assert stage.copier.maintenance.beat - beats <= 11
    assert stage.whole()
