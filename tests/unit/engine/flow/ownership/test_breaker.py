"""One bad partition: it stops alone, reports why, waits longer and longer, and costs the others nothing."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.core.events.events import LaneRefused, OwnershipLost, ProducerChanged, UnfencedOwnership
from engine.core.lane.states import State
from engine.flow.lane import acquire_attempts
from engine.flow.ownership import acquisition
from engine.flow.ownership import scheduler as acquisitions
from policies.model import TopicPartition
from tests.unit.engine.flow.stage import TERMS, Stage, until

BAD = 1


def filled(partitions: int) -> Stage:
    stage = Stage(partitions)
    for source in stage.sources:
        source.data(2)
    return stage


def others_whole(stage: Stage) -> bool:
    return all(stage.whole(index) for index in range(len(stage.sources)) if index != BAD)


def refuse(stage: Stage, asked: str, error: Exception, times: int = 1_000_000) -> list[str]:
    """Fail what is asked about the bad partition; return what was asked about it."""
    seen: list[str] = []

    def fail(what: str, partitions: Sequence[TopicPartition]) -> None:
        if what == asked and TopicPartition("A.t", BAD) in partitions:
            seen.append(what)
            if len(seen) <= times:
                raise error

    stage.b.fail = fail
    return seen


async def test_a_barrier_that_does_not_end_holds_no_other_lane() -> None:
    stage = filled(4)
    stage.b.stuck[TopicPartition("A.t", BAD)] = asyncio.Event()
    stage.assign()
    async with stage.running():
        await until(lambda: others_whole(stage))
        assert stage.state(BAD) is State.ACQUIRING
        stage.b.stuck[TopicPartition("A.t", BAD)].set()
        await until(lambda: stage.whole(BAD))


async def test_barriers_that_do_not_end_do_not_use_up_what_may_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acquisition, "_AT_ONCE", 3)
    monkeypatch.setattr(acquisition, "_SLOT_S", 0.01)
    monkeypatch.setattr(acquisitions, "_WAVE_S", 0.01)
    stage = filled(8)
    for index in range(6):
        stage.b.stuck[TopicPartition("A.t", index)] = asyncio.Event()
    stage.assign()
    async with stage.running():
        await until(lambda: stage.whole(6) and stage.whole(7))
        for stuck in stage.b.stuck.values():
            stuck.set()
        await until(lambda: all(stage.whole(index) for index in range(8)))


async def test_a_lane_whose_tail_cannot_be_read_holds_no_other_lane() -> None:
    stage = filled(3)
    for target in stage.targets:
        target.marker(5, 0)  # so that the first look reads headers
    refuse(stage, "read headers", ConnectionLost("b:1"))
    stage.assign()
    async with stage.running():
        await until(lambda: others_whole(stage))
        assert (stage.state(BAD), stage.driver(BAD).health.reason) == (State.ACQUIRING, "connection lost: b:1")
        stage.b.fail = lambda _asked, _partitions: None
        await until(lambda: stage.whole(BAD))


async def test_a_lane_that_is_refused_stops_alone_after_one_attempt_of_its_own() -> None:
    stage = filled(4)
    asked = refuse(stage, "acquire", KafkaRefusal("transactional id x", 42, "InvalidRequest", "mend the request"))
    stage.assign()
    async with stage.running():
        await until(lambda: others_whole(stage) and stage.state(BAD) is State.FAILED)
        (refused,) = stage.told(LaneRefused)
        assert "mend the request" in refused.text()
        assert len(asked) == 1


async def test_a_lane_that_somebody_takes_away_again_and_again_stops_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acquire_attempts, "_LONGEST_WAIT_S", 0.001)
    stage = filled(3)
    stage.assign()
    async with stage.running(), asyncio.TaskGroup() as group:

        async def take_away() -> None:
            while stage.state(BAD) is not State.FAILED:
                await until(lambda: stage.whole(BAD) or stage.state(BAD) is State.FAILED)
                stage.take_away(BAD)
                stage.sources[BAD].data(1)
                stage.a.grow()

        taking = group.create_task(take_away())
        await taking
        (lost,) = stage.told(OwnershipLost)
        assert "21 times in a row" in lost.text()
        for index in (0, 2):
            stage.sources[index].data(2)
        stage.a.grow()
        await until(lambda: others_whole(stage))
        stage.copier.resume(None)
        await until(lambda: stage.whole(BAD))


async def test_a_lane_that_is_lost_on_every_way_to_its_owner_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acquire_attempts, "_LONGEST_WAIT_S", 0.001)
    stage = filled(3)
    refuse(stage, "acquire", KafkaRefusal("transactional id x", 90, "ProducerFenced", "a newer owner took the lane"))
    stage.assign()
    async with stage.running():
        await until(lambda: others_whole(stage) and stage.state(BAD) is State.FAILED)
        (lost,) = stage.told(OwnershipLost)
        assert "6 times in a row" in lost.text()


async def test_a_lane_that_lost_a_race_for_its_owner_tries_again() -> None:
    stage = filled(2)
    refuse(stage, "acquire", KafkaRefusal("transactional id x", 90, "ProducerFenced", "a newer owner"), times=2)
    stage.assign()
    async with stage.running():
        await until(lambda: others_whole(stage) and stage.whole(BAD))
        assert stage.told(OwnershipLost) == []


async def test_lanes_that_must_wait_for_an_old_owner_wait_alone() -> None:
    stage = filled(3)
    stage.assign()
    async with stage.running():
        await until(lambda: others_whole(stage) and stage.whole(BAD))
    del stage.b.transactional[TERMS.transactional_id("t", BAD)]  # it expired
    stage.b.transactional["another"] = (9999, 0)
    for source in stage.sources:
        source.data(2)
    stage.copier = stage.new_copier(msgspec.structs.replace(TERMS, takeover_wait_s=3600.0))
    stage.assign(epoch=2)
    async with stage.running():
        await until(lambda: others_whole(stage) and stage.told(ProducerChanged))
        assert stage.state(BAD) is State.ACQUIRING
    assert stage.told(UnfencedOwnership) == []


async def test_of_two_deployments_at_one_epoch_the_earlier_one_stands_down() -> None:
    stage = filled(1)
    stage.assign(epoch=4)
    async with stage.running():
        await until(stage.whole)
        first, stage.copier = stage.copier, stage.new_copier(msgspec.structs.replace(TERMS, deployment_id="other"))
        stage.assign(epoch=4)
        async with stage.running():
            await until(lambda: stage.stored().deployment_id == "other")
            stage.sources[0].data(2)
            stage.a.grow()
            await until(lambda: stage.whole() and first.progress().lanes[0].state == "failed")
            assert stage.told(OwnershipLost) == []
        stage.copier = first
    assert stage.whole()
