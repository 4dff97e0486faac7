"""Target leaders that move while answers are outstanding: nothing lost, doubled or reordered, no lane stuck."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from engine.core.events.events import ForeignWriter, OwnershipLost, SourceGap, TargetCut, TargetGap
from engine.core.lane.states import State
from engine.flow.io import outbox
from engine.flow.ports.ports import Leader
from policies.model import TopicPartition
from tests.unit.engine.flow.stage import Stage, until

COPY = TopicPartition("A.t", 0)
FALSE_ALARMS = TargetCut, TargetGap, SourceGap, ForeignWriter, OwnershipLost


class Moving(Stage):
    """Lanes whose target leaders move."""

    def more(self) -> None:
        for source in self.sources:
            source.data(2)
        self.a.grow()

    def held(self, node: int = 1) -> int:
        """Appends to the copies that a broker has not answered."""
        return sum(len(one.held) for one in self.b.connections if one.node == node and not one.lost.is_set())

    def move(self, node: int, *, partition: int = 0) -> None:
        where = TopicPartition("A.t", partition)
        self.b.leader[where] = Leader(node, self.b.leader[where].epoch + 1, "id-A.t")
        self.copier.router.leaders.look_up([self.driver(partition)])

    async def led_by(self, node: int) -> None:
        driver = self.driver()
        await until(lambda: driver.leaders.target.node == node and not driver.leaders.doubted)

    async def filled(self) -> None:
        self.more()
        await until(lambda: self.all_whole() and all(self.written_down(index) for index in range(len(self.sources))))

    @asynccontextmanager
    async def unanswered(self, how: str) -> AsyncIterator[None]:
        """Run, with an append at broker 1 that it does not answer: `frozen` or `mute`."""
        self.assign()
        async with self.running():
            await self.filled()
            (self.b.frozen if how == "frozen" else self.b.mute).add(1)
            self.more()
            await until(self.held)
            yield

    def all_whole(self) -> bool:
        return all(self.whole(index) for index in range(len(self.sources)))

    def nothing_told(self) -> bool:
        return all(self.told(kind) == [] for kind in FALSE_ALARMS)


def silent_after(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(outbox, "SILENT_S", seconds)
    monkeypatch.setattr(outbox, "_LOOK_S", min(0.01, seconds))


@pytest.mark.parametrize("how", ["frozen", "mute"])
async def test_the_new_leader_gets_nothing_before_the_old_one_has_answered(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent_after(monkeypatch, 3600.0)
    stage = Moving()
    async with stage.unanswered(how):
        driver, before = stage.driver(), len(stage.targets[0].batches)
        stage.move(2)
        await stage.led_by(2)
        stage.more()
        await until(lambda: driver.lane.pieces.waiting)
        # The new leader may still have to say where its log ends: that obstacle comes first, and goes by itself.
        await until(lambda: "previous target leader" in stage.copier.router.obstacle(driver))
        assert (driver.lane.in_flight, len(stage.targets[0].batches)) == (1, before)
        stage.b.thaw(1)
        await until(stage.all_whole)
        assert stage.state() is State.COPYING
        stage.more()
        await until(stage.all_whole)
    assert stage.nothing_told()


@pytest.mark.parametrize("how", ["frozen", "mute"])
async def test_a_silent_broker_that_leads_no_more_is_not_waited_for(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    silent_after(monkeypatch, 0.05)
    stage = Moving()
    async with stage.unanswered(how):
        stage.b.leader[COPY] = Leader(2, 1, "id-A.t")  # nobody says so: the silence is reason enough to look
        await until(stage.all_whole)
        stage.b.thaw(1)  # what it was asked to it does now, too late
        stage.more()
        await until(stage.all_whole)
    assert stage.nothing_told()


async def test_a_silent_broker_that_still_leads_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    silent_after(monkeypatch, 0.02)
    stage = Moving()
    async with stage.unanswered("mute"):
        connections, looks = len(stage.b.connections), 0

        def count(asked: str, _partitions: Sequence[TopicPartition]) -> None:
            nonlocal looks
            looks += asked == "leaders"

        stage.b.fail = count
        await until(lambda: looks >= 3)
        assert (len(stage.b.connections), stage.driver().lane.in_flight) == (connections, 1)
        stage.b.thaw(1)
        await until(stage.all_whole)
    assert stage.nothing_told()


async def test_a_lane_that_comes_back_to_the_old_leader_goes_on_there(monkeypatch: pytest.MonkeyPatch) -> None:
    silent_after(monkeypatch, 3600.0)
    stage = Moving()
    async with stage.unanswered("mute"):
        for node in (2, 3, 1):
            stage.move(node)
            await stage.led_by(node)
        stage.b.thaw(1)
        await until(stage.all_whole)
        stage.more()
        await until(stage.all_whole)
    assert stage.nothing_told()


@pytest.mark.parametrize("seed", range(10))
async def test_leaders_that_move_at_random_between_brokers_that_freeze(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent_after(monkeypatch, 0.03)
    dice, stage = random.Random(seed), Moving(2)
    stage.assign()
    async with stage.running():
        await stage.filled()
        for _ in range(25):
            step = dice.choice(("move", "freeze", "mute", "thaw", "lose", "more", "more"))
            node = dice.randint(1, 3)
            if step == "move":
                stage.move(node, partition=dice.randint(0, 1))
            elif step == "freeze":
                stage.b.frozen.add(node)
            elif step == "mute":
                stage.b.mute.add(node)
            elif step == "thaw":
                stage.b.thaw(node)
            elif step == "lose":
                stage.b.lose(node)
            else:
                stage.more()
            await asyncio.sleep(dice.choice((0, 0, 0.002, 0.05)))  # some steps meet what the last one began
        for node in (1, 2, 3):
            stage.b.thaw(node)
        stage.more()
        await until(lambda: stage.all_whole() or not stage.nothing_told())
    assert stage.nothing_told(), stage.events
