"""Lanes with nothing to copy watch their source without an owner, and get one with the first record."""

import asyncio

import msgspec
import pytest

from engine.base.errors import ConnectionLost
from engine.core.events.events import ForeignWriter, IdentityChanged, OwnershipLost, ProducerChanged, Resumed, SourceGap
from engine.core.lane.states import State
from engine.flow.ownership import scheduler as acquisitions
from engine.flow.ports.ports import Leader
from policies.model import TopicPartition
from tests.fakes.brokers import turns
from tests.unit.engine.flow.stage import TERMS, Stage, until


@pytest.fixture(autouse=True)
def _however_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acquisitions, "_FEW", 0)


class Second(Stage):
    """A stage whose lanes have been copied to their end by a first copier; `begun` is what the second one begins."""

    def __init__(self, partitions: int = 1) -> None:
        super().__init__(partitions)
        self.begun: list[str] = []

    async def copied_once(self, epoch: int = 1) -> None:
        for source in self.sources:
            source.data(3)
        self.assign(epoch=epoch)
        async with self.running():
            await until(lambda: all(self.whole(index) for index in range(len(self.sources))))
        self.events.clear()
        self.begun.clear()
        self.copier = self.new_copier()
        self.b.begun = self.begun.append

    def more(self, partition: int = 0) -> None:
        self.sources[partition].data(2)
        self.a.grow()

    async def until_watching(self, *partitions: int) -> None:
        await until(lambda: all(self.state(index) is State.WATCHING for index in partitions or (0,)))


async def test_a_lane_with_nothing_to_copy_is_owned_with_its_first_record() -> None:
    stage = Second()
    await stage.copied_once()
    stage.assign(epoch=2)
    async with stage.running():
        await stage.until_watching()
        (lane,) = stage.copier.progress().lanes
        assert (lane.state, lane.source_next, lane.lag_records, lane.resumed_by) == ("copying", 3, 0, "position")
        assert (stage.begun, stage.stored().assignment_epoch) == ([], 1)
        stage.more()
        await until(stage.whole)
        assert stage.begun[0] == "acquire"
        (resumed,) = stage.told(Resumed)
        assert isinstance(resumed, Resumed)
        assert (resumed.source_offset, resumed.tail_records) == (3, 0)
        await until(lambda: stage.stored().assignment_epoch == 2)


async def test_only_lanes_with_something_to_copy_are_owned_at_start() -> None:
    stage = Second(4)
    await stage.copied_once()
    stage.sources[2].data(2)
    stage.targets[3].foreign(1)  # whose records they are must be said now, not with the next record
    stage.assign(epoch=2)
    async with stage.running():
        await until(lambda: stage.whole(2))
        await stage.until_watching(0, 1)
        assert stage.begun.count("acquire") == 2
        assert stage.state(3) is State.FAILED
    assert len(stage.told(ForeignWriter)) == 1


async def test_a_lane_without_a_position_is_owned_at_start_and_has_one() -> None:
    stage = Stage()
    stage.assign()
    async with stage.running():
        await until(lambda: stage.state() is State.COPYING and stage.driver().positions.settled)
    assert stage.stored().source_next == 0


async def test_a_lane_behind_which_records_were_appended_that_its_position_does_not_name_is_owned() -> None:
    stage = Second()
    await stage.copied_once()
    stage.positions.batches.pop()
    stage.assign(epoch=2)
    async with stage.running():
        await until(lambda: stage.told(Resumed))
    (resumed,) = stage.told(Resumed)
    assert isinstance(resumed, Resumed)
    assert resumed.tail_records == 3


async def test_a_lane_whose_topic_is_another_stops_at_start() -> None:
    stage = Second()
    await stage.copied_once()
    stage.a.leader[TopicPartition("t", 0)] = Leader(1, 0, "another id")
    stage.assign(epoch=2)
    async with stage.running():
        await until(lambda: stage.told(IdentityChanged))


async def test_a_topic_that_is_made_anew_is_noticed_by_a_lane_that_watches() -> None:
    stage = Second()
    await stage.copied_once()
    stage.assign(epoch=2)
    async with stage.running():
        await stage.until_watching()
        stage.a.leader[TopicPartition("t", 0)] = Leader(1, 0, "another id")
        stage.copier.router.leaders.look_up([stage.driver()])
        await until(lambda: stage.told(IdentityChanged))
        assert stage.begun == []


async def test_a_lane_with_a_newer_owner_is_given_up_without_disturbing_it() -> None:
    stage = Second()
    await stage.copied_once(epoch=7)
    stage.assign(epoch=6)
    async with stage.running():
        await until(lambda: stage.told(OwnershipLost))
        assert stage.begun == []


async def test_records_that_vanish_while_a_lane_watches_are_a_gap() -> None:
    stage = Second()
    await stage.copied_once()
    stage.assign(epoch=2)
    async with stage.running():
        await stage.until_watching()
        stage.sources[0].data(4)
        stage.sources[0].start = 5
        stage.a.grow()
        await until(lambda: stage.told(SourceGap))
    (gap,) = stage.told(SourceGap)
    assert isinstance(gap, SourceGap)
    assert (gap.first, gap.last) == (3, 4)


async def test_a_higher_epoch_of_a_lane_that_watches_counts_when_it_wakes() -> None:
    stage = Second()
    await stage.copied_once()
    stage.assign(epoch=2)
    async with stage.running():
        await stage.until_watching()
        stage.assign(epoch=3)
        assert stage.state() is State.WATCHING
        stage.more()
        await until(lambda: stage.whole() and stage.stored().assignment_epoch == 3)


async def test_a_paused_lane_that_watches_sleeps_on() -> None:
    stage = Second()
    await stage.copied_once()
    stage.copier.pause(None)
    stage.assign(epoch=2)
    async with stage.running():
        await stage.until_watching()
        assert stage.copier.progress().lanes[0].state == "paused"
        stage.more()
        await turns(100)
        assert (stage.state(), stage.begun) == (State.WATCHING, [])
        stage.copier.resume(None)
        await until(stage.whole)


async def test_lanes_that_watch_are_let_go_at_once() -> None:
    stage = Second(2)
    await stage.copied_once()
    stage.assign(epoch=2)
    async with stage.running():
        await stage.until_watching(0, 1)
        await stage.copier.release("s")
        assert (stage.copier.drivers, stage.begun) == ({}, [])


async def test_a_former_owner_that_lives_on_goes_on_or_is_fenced_and_nothing_is_doubled() -> None:
    stage = Second()
    await stage.copied_once()
    stage.assign(epoch=2)
    async with stage.running():
        first = stage.copier
        stage.more()
        await until(lambda: stage.whole() and stage.written_down())
        stage.copier = second = stage.new_copier()
        stage.assign(epoch=3)
        async with stage.running():
            await stage.until_watching()
            for _ in range(20):
                stage.more()
                await turns(7)
            await until(stage.whole)
            await until(lambda: first.progress().lanes[0].state == "failed")
            stage.more()
            await until(stage.whole)
            assert second.progress().lanes[0].state == "copying"
        stage.copier = first


async def test_a_lane_that_watched_long_enough_does_not_wait_for_owners_that_are_gone() -> None:
    stage = Second()
    await stage.copied_once()
    stage.b.transactional.clear()  # it expired
    stage.b.transactional["another"] = (9999, 0)
    stage.copier = stage.new_copier(msgspec.structs.replace(TERMS, takeover_wait_s=3600.0))
    stage.assign(epoch=2)
    async with stage.running():
        await stage.until_watching()
        stage.driver().attempts.given_at_s -= 3600.0
        stage.more()
        await until(stage.whole)
    assert len(stage.told(ProducerChanged)) == 1


async def test_a_lane_that_cannot_be_looked_at_is_tried_again() -> None:
    stage = Second(3)
    await stage.copied_once()
    left = [4]

    def fail(what: str, _partitions: object) -> None:
        if what == "read records" and left[0]:
            left[0] -= 1
            raise ConnectionLost("b:1")

    stage.b.fail = fail
    stage.assign(epoch=2)
    async with stage.running():
        async with asyncio.timeout(20):
            await stage.until_watching(0, 1, 2)
        assert (stage.begun, left) == ([], [0])
