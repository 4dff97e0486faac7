"""Lanes that settle unknown outcomes by the target's log, and what they must not believe or do meanwhile."""

import asyncio

import msgspec
import pytest

from engine.base.clock import pause
from engine.base.errors import MalformedBatch
from engine.core.events.events import TargetGap
from engine.core.lane.states import State
from engine.core.position.target_tail import TailBatch
from engine.flow.ports.ports import Leader
from policies.model import TopicPartition
from tests.unit.engine.flow.io.test_leader_ends import COPY, Cut, mapped
from tests.unit.engine.flow.ownership.test_parted_logs import SameOwner
from tests.unit.engine.flow.stage import TERMS, until

_RARE = msgspec.structs.replace(TERMS, stop_on_foreign_writer=False, flush_s=2.0)


async def test_a_batch_that_cannot_be_read_stops_one_lane_and_no_copier(monkeypatch: pytest.MonkeyPatch) -> None:
    """An append got no answer, and the leader's disk has a batch with a broken header."""
    stage = Cut(2)
    stage.assign()
    async with stage.running():
        await stage.fill()
        driver = stage.driver()
        driver.lane.state = State.SETTLING
        read = stage.b.read_headers

        async def broken(partition: TopicPartition, first: int, end: int) -> list[TailBatch]:
            if partition == COPY:
                raise MalformedBatch(*COPY, 5, "length 3, format 2 has at least 61")
            return await read(partition, first, end)

        monkeypatch.setattr(stage.b, "read_headers", broken)
        stage.copier._failures._spawn(stage.copier._failures._settle(driver, driver.lane.target_next))
        for _ in range(50):
            await asyncio.sleep(0)
        stage.sources[1].data(2)
        stage.a.grow()
        await until(lambda: stage.whole(1))
        assert stage.state(0) is State.FAILED


async def test_a_settling_lane_whose_leader_is_doubted_does_not_flood_the_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The lane's new leader does not answer its verification for 30 s; 1,000 such lanes must not flood it."""
    stage = Cut(1)
    stage.assign()
    async with stage.running():
        await stage.fill()
        driver = stage.driver()
        driver.lane.state = State.SETTLING
        driver.leaders.doubt()
        reads = 0
        read = stage.b.read_headers

        async def counted(partition: TopicPartition, first: int, end: int) -> list[TailBatch]:
            nonlocal reads
            reads += 1
            return await read(partition, first, end)

        monkeypatch.setattr(stage.b, "read_headers", counted)
        stage.copier._failures._spawn(stage.copier._failures._settle(driver, driver.lane.target_next))
        await pause(30.0)
        driver.leaders.trust(driver.lane.target_next)
        assert reads == 0
        await until(lambda: driver.lane.state is not State.SETTLING)


@pytest.mark.parametrize("noticed", [True, False])
async def test_a_settlement_believes_no_leader_that_was_not_verified(noticed: bool) -> None:
    """X (epoch 3) froze with 4-5 and 6 in its socket; Y (epoch 4) got 4-5, another writer's record, 6, and is verified.

    An append is refused with OUT_OF_ORDER (or its window is mixed), so the lane settles. Y resigns, its connections
    stay open; X, thawed, had taken: another writer's record, 4-5, 6. It leads by an unclean election (epoch 5).
    ListOffsets at Y answers NOT_LEADER, the client refreshes its metadata, and the settlement reads X, while the lane
    still names Y. `noticed`: the same, but a lost connection makes the lane verify first; that is found.
    """
    stage = SameOwner()
    stage.copier = stage.new_copier(_RARE)
    stage.assign()
    async with stage.running():
        stage.b.leader[COPY] = Leader(1, 3, "id-A.t")
        log = stage.targets[0]
        await until(lambda: stage.state() is State.COPYING and stage.driver().lane.announced)
        driver = stage.driver()
        for _ in range(2):
            stage.sources[0].data(2)
        stage.a.grow()
        await until(lambda: driver.lane.records == 4)
        stage.b.leader[COPY] = Leader(1, 4, "id-A.t")  # Y, over a connection that stays open
        stage.copier.router.leaders.look_up([driver])
        await until(lambda: driver.leaders.verified.epoch == 4)
        stage.sources[0].data(2)
        stage.a.grow()
        await until(lambda: driver.lane.records == 6)
        stage.b.led(COPY).foreign(1)
        stage.sources[0].data(1)
        stage.a.grow()
        await until(lambda: driver.lane.records == 7)
        stage.own, stage.sequences = driver.lane.producer, {2: 4, 3: 6}
        assert log.end == driver.lane.target_next == 9, (log.end, driver.lane.target_next)
        # now X
        log.truncate(5)
        for known in log.producers.values():
            while known.batches and known.batches[-1][2] >= 5:
                known.batches.pop()
        log.epochs = [(3, 0)]
        log.foreign(1)
        stage.take_own(2, 3)
        stage.b.leader[COPY] = Leader(2, 5, "id-A.t")
        driver.lane.state = State.SETTLING
        if noticed:
            stage.b.lose(1)
        await asyncio.sleep(0)
        stage.copier._failures._spawn(stage.copier._failures._settle(driver, driver.lane.target_next))
        await until(lambda: driver.lane.state is not State.SETTLING)
        assert driver.lane.position.behind.epoch != 3, "it did not go on by X's log with the map of Y's"
        stage.more()
        await until(lambda: stage.told(TargetGap) or stage.whole())
        if not stage.told(TargetGap):
            assert stage.copied() == stage.sources[0].wanted()
            assert mapped(stage) == stage.targets[0].places()
