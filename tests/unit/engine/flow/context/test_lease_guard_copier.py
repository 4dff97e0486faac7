"""A copier whose lease has expired starts nothing, and continues at the same place with a new lease."""

import asyncio
from random import Random

import msgspec
import pytest

from engine.base.clock import now_s
from engine.core.events.events import OwnershipLost, Resumed
from engine.core.lane.states import State
from engine.flow.context.lease_guard import LeaseGuard
from engine.flow.ports.ports import Leader
from policies.model import TopicPartition
from tests.fakes.brokers import turns
from tests.unit.engine.flow.stage import TERMS, Stage, until


class Watch:
    """Counts what a copier begins at its brokers, and what it begins while it is held."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.held = False
        self.begun: list[str] = []
        self.wrong: list[str] = []
        stage.a.begun = stage.b.begun = self._count

    def _count(self, asked: str) -> None:
        self.begun.append(asked)
        if self.held:
            self.wrong.append(asked)

    def hold(self) -> None:
        self.held = True
        self.stage.copier.hold()

    def unhold(self) -> None:
        self.held = False
        self.stage.copier.unhold()


async def test_a_held_copier_starts_nothing_and_loses_nothing() -> None:
    stage = Stage(2)
    watch = Watch(stage)
    stage.assign()
    async with stage.running():
        await until(lambda: all(stage.state(index) is State.COPYING for index in range(2)))
        watch.hold()
        for source in stage.sources:
            source.data(3)
        stage.a.grow()
        await turns(200)
        await until(lambda: not any(driver.lane.in_flight for driver in stage.copier.drivers.values()))
        watch.unhold()
        await until(lambda: stage.whole(0) and stage.whole(1))
    assert watch.wrong == []


async def test_a_copier_that_is_held_before_it_starts_acquires_when_it_may() -> None:
    stage = Stage()
    watch = Watch(stage)
    watch.hold()
    stage.sources[0].data(3)
    stage.assign()
    async with stage.running():
        await turns(200)
        assert (watch.begun, stage.state()) == ([], State.ACQUIRING)
        watch.unhold()
        await until(stage.whole)


async def test_an_acquisition_under_way_when_the_lease_ends_is_made_again() -> None:
    stage = Stage()
    watch = Watch(stage)
    stage.sources[0].data(3)
    stage.assign()

    def hold(asked: str) -> None:
        if asked == "acquired" and watch.begun.count("acquire") == 1:
            watch.hold()

    stage.b.before = hold
    async with stage.running():
        await until(lambda: watch.held)
        await turns(200)
        assert stage.state() is State.ACQUIRING
        watch.unhold()
        await until(stage.whole)
    assert (watch.begun.count("acquire"), watch.wrong) == (2, [])
    assert len(stage.told(Resumed)) == 1


async def test_a_lease_that_ends_holds_by_itself_and_a_new_one_lets_go_on() -> None:
    stage = Stage()
    watch = Watch(stage)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.driver().positions.settled)
        stage.copier.lease_until_s = now_s()
        watch.held = True
        stage.sources[0].data(3)
        await until(lambda: stage.copier.progress().beat > 3)
        assert stage.copied() == []
        watch.held = False
        stage.copier.lease_until_s = now_s() + 3600
        await until(stage.whole)
    assert watch.wrong == []


async def test_a_paused_topic_stays_paused_through_a_hold() -> None:
    stage = Stage()
    stage.sources[0].data(3)
    stage.copier.pause(frozenset({"t"}))
    stage.assign()
    async with stage.running():
        await until(lambda: stage.state() is State.COPYING and stage.driver().positions.settled)
        stage.copier.hold()
        stage.copier.unhold()
        await turns(100)
        assert (stage.copied(), stage.a.fetches) == ([], [])
        stage.copier.resume(frozenset({"t"}))
        await until(stage.whole)


async def test_a_held_copier_drains_without_waiting_for_positions_it_may_not_write() -> None:
    stage = Stage()
    stage.copier = stage.new_copier(msgspec.structs.replace(TERMS, drain_s=3600.0))
    stage.sources[0].data(3)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.copied() and stage.driver().lane.idle)
        stage.copier.hold()
        async with asyncio.timeout(120):
            await stage.copier.drain()


async def test_unfenced_lanes_look_who_wrote_while_they_were_held() -> None:
    stage = Stage()
    stage.b.fenced = False
    stage.sources[0].data(2)
    stage.assign(epoch=1)
    async with stage.running():
        await until(stage.whole)
        stage.copier.hold()
        held, stage.copier = stage.copier, stage.new_copier()
        stage.assign(epoch=2)
        stage.sources[0].data(2)
        async with stage.running():
            await until(stage.whole)
        stage.copier = held
        held.unhold()
        await until(lambda: stage.state() is State.FAILED)
    assert len(stage.told(OwnershipLost)) == 1
    assert stage.whole()


async def test_ids_are_not_kept_alive_while_held_and_are_afterwards() -> None:
    stage = Stage()
    watch = Watch(stage)
    stage.copier.maintenance.producers_expire(0.01)
    stage.assign()
    async with stage.running():
        await until(lambda: "keep alive" in watch.begun)
        watch.hold()
        beat, before = stage.copier.progress().beat, watch.begun.count("keep alive")
        await until(lambda: stage.copier.progress().beat > beat + 3)
        watch.unhold()
        await until(lambda: watch.begun.count("keep alive") > before)
    assert watch.wrong == []


# --- interleavings -------------------------------------------------------------------------------------------------


class Play:
    """A flow of two lanes to which everything may happen at any moment."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.stage = Stage(2)
        self.watch = Watch(self.stage)
        self.epoch = 1
        self.turns = 0
        if seed % 2:
            self.stage.copier.maintenance.producers_expire(0.01)  # every tick keeps alive
            self.stage.b.expiry_s = 0.01  # every record is old

    async def run(self, steps: int) -> None:
        self.stage.assign()
        async with self.stage.running():
            for _ in range(steps):
                self._step()
                await turns(self.random.randrange(12))
            self.watch.unhold()
            self.stage.copier.resume(None)
            self.stage.assign(epoch=self.epoch)
            self.stage.a.grow()
            await until(lambda: self.stage.whole(0) and self.stage.whole(1))
        assert self.watch.wrong == []

    def _step(self) -> None:
        stage, random = self.stage, self.random
        partition = random.randrange(2)
        match random.randrange(9):
            case 0 | 1 | 2:
                stage.sources[partition].data(random.randint(1, 3))
                stage.a.grow()
            case 3 | 4:
                (self.watch.unhold if self.watch.held else self.watch.hold)()
                self.turns += 1
            case 5:
                stage.b.lose(random.randint(1, 2))
            case 6:
                self.epoch += 1
                stage.b.leader[TopicPartition("A.t", partition)] = Leader(random.randint(1, 2), self.epoch, "id-A.t")
            case 7:
                (stage.copier.pause if random.random() < 0.3 else stage.copier.resume)(None)
            case 8:
                self.epoch += 1
                stage.assign(epoch=self.epoch, only=random.choice([[0, 1], [0], [1]]))


@pytest.mark.parametrize("seed", range(12))
async def test_no_interleaving_of_holds_starts_anything_loses_or_repeats(seed: int) -> None:
    play = Play(seed)
    await play.run(120)
    assert play.turns > 3


@pytest.mark.full
@pytest.mark.parametrize("start", range(100, 1100, 50))
async def test_no_interleaving_of_many_holds_starts_anything_loses_or_repeats(start: int) -> None:
    for seed in range(start, start + 50):
        await Play(seed).run(300)


async def test_the_interleavings_see_a_gate_that_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeaseGuard, "is_open", True)
    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup():
            await Play(0).run(120)
