"""A leader whose log ends at the acknowledged offset, or behind it: is it the log that the lane appended to?"""

import asyncio
from collections.abc import Mapping, Sequence
from unittest.mock import Mock

import msgspec
import pytest

from engine.base.errors import OffsetGone, WireError
from engine.core.events.events import TargetCut
from engine.core.lane.states import State
from engine.core.position.target_tail import TailBatch
from engine.flow.io.leader_ends import LeaderEndVerifier
from engine.flow.lane.lane_leaders import LaneLeaders
from engine.flow.ports.ports import EpochEnd, Leader
from policies.model import TopicPartition
from tests.unit.engine.flow.io.test_leader_ends import COPY, Cut, a_second_owner, elect_with_late_requests
from tests.unit.engine.flow.stage import TERMS, until


class Watched(Cut):
    """Notes what the copier begins at the target, and which headers it reads, from `watch` on."""

    def __init__(self, partitions: int = 1) -> None:
        super().__init__(partitions)
        self.begun: list[str] = []
        self.read: list[int] = []

    def watch(self) -> None:
        read = self.b.read_headers
        self.b.begun = self.begun.append

        async def noted(partition: TopicPartition, first: int, end: int) -> list[TailBatch]:
            self.read.append(first)
            return await read(partition, first, end)

        self.b.read_headers = noted  # type: ignore[method-assign]

    async def led_by(self, node: int, epoch: int) -> None:
        """Elect a leader, and let the copier see it."""
        self.b.leader[COPY] = Leader(node, epoch, "id-A.t")
        self.copier.router.leaders.look_up([self.driver()])
        await until(lambda: self.driver().leaders.verified.epoch == epoch)

    async def go_on(self) -> None:
        """Copy some more; nothing was acquired meanwhile."""
        self.more()
        await until(lambda: self.whole() and self.written_down())
        assert "acquire" not in self.begun


async def test_a_leader_with_the_epoch_of_the_last_append_is_believed_without_reading() -> None:
    stage = Watched()
    stage.assign()
    async with stage.running():
        await stage.fill()
        await stage.led_by(1, 1)
        stage.more()
        await until(stage.written_down)
        stage.watch()
        await stage.led_by(2, 5)
        await stage.go_on()
    assert stage.read == []


async def test_behind_a_barrier_alone_the_leader_epoch_of_the_barrier_is_known_from_the_log() -> None:
    stage = Watched()
    async with a_second_owner(stage, copies=0):
        stage.watch()
        await stage.led_by(2, 5)
        assert stage.read == []
        await stage.go_on()


async def test_what_was_not_read_when_the_lane_began_is_read() -> None:
    stage = Watched()
    stage.assign()
    async with stage.running():
        await until(lambda: stage.state() is State.COPYING and stage.driver().positions.settled)
        stage.watch()
        await stage.led_by(2, 5)
        assert stage.read == [0]
        await stage.go_on()


async def test_a_leader_epoch_that_began_unseen_is_no_loss() -> None:
    """Controllers raise it when in-sync replicas change, too: the same leader goes on, and refuses nothing."""
    stage = Watched()
    stage.assign()
    async with stage.running():
        await stage.fill()
        stage.b.leader[COPY] = Leader(1, 1, "id-A.t")
        stage.more()
        await until(stage.written_down)
        assert stage.driver().leaders.verified.epoch == 0
        stage.watch()
        await stage.led_by(2, 5)
        assert stage.read == [8], "epoch 0 ends at 7"
        await stage.go_on()


async def test_an_epoch_that_was_seen_and_is_empty_is_no_loss() -> None:
    stage = Watched()
    stage.assign()
    async with stage.running():
        await stage.fill()
        await stage.led_by(1, 1)
        stage.b.leader[COPY] = Leader(1, 2, "id-A.t")
        stage.more()
        await until(stage.written_down)
        stage.watch()
        await stage.led_by(1, 3)
        assert stage.read == [8]
        await stage.go_on()


async def test_a_repetition_is_of_the_epoch_before_and_no_loss() -> None:
    stage = Watched()
    stage.assign()
    async with stage.running():
        await stage.fill()
        stage.b.mute.add(1)
        stage.more()
        await until(lambda: stage.driver().lane.in_flight)
        stage.b.leader[COPY] = Leader(2, 5, "id-A.t")
        stage.b.mute.clear()
        stage.b.lose(1)
        await until(stage.written_down)
        stage.watch()
        await stage.led_by(1, 6)
        assert stage.read == [8, 8], "acknowledged in epoch 5, appended in 0: acquired again, and all is there"
        stage.more()
        await until(lambda: stage.whole() and stage.written_down())
        assert stage.told(TargetCut) == []


async def test_what_is_acknowledged_during_the_question_is_no_loss() -> None:
    """The same broker leads on, at a new epoch, and answers batches in flight between the two questions."""
    stage = Watched()
    stage.assign()
    async with stage.running():
        await stage.fill()
        stage.b.frozen.add(1)
        stage.more()
        await until(lambda: stage.driver().lane.in_flight)
        ask = stage.b.epoch_ends

        async def slowly(
            epochs: Mapping[TopicPartition, int], led: Mapping[TopicPartition, Leader] | None = None
        ) -> dict[TopicPartition, EpochEnd]:
            stage.b.thaw(1)
            await until(lambda: not stage.driver().lane.in_flight)
            return await ask(epochs, led)

        stage.b.epoch_ends = slowly  # type: ignore[method-assign]
        stage.watch()
        await stage.led_by(1, 5)
        await stage.go_on()


async def test_a_barrier_of_a_later_leader_than_the_known_one_is_not_looked_for_in_the_log_of_that() -> None:
    """The leader moves while the barrier is written; the one before comes back with late requests."""
    stage = Cut()
    stage.assign()
    async with stage.running():
        await stage.fill()
    stage.copier = stage.new_copier()
    stage.assign(epoch=2)

    def move(what: str) -> None:
        if what == "acquire":
            stage.b.leader[COPY] = Leader(2, 3, "id-A.t")

    stage.b.begun = move
    async with stage.running():
        await until(lambda: stage.state() is State.COPYING and stage.driver().positions.settled)
        stage.b.begun = lambda _what: None
        elect_with_late_requests(stage, 3, count=1)
        stage.a.grow()
        await until(lambda: stage.told(TargetCut) and stage.written_down())
    assert stage.whole()


async def test_a_loss_within_the_epoch_that_another_writer_fills_up_is_seen() -> None:
    stage = Cut()
    stage.copier = stage.new_copier(msgspec.structs.replace(TERMS, stop_on_foreign_writer=False))
    stage.assign()
    async with stage.running():
        await stage.fill()
        stage.lose(5)
        stage.b.led(COPY).foreign(2)
        stage.more()
        await until(lambda: stage.told(TargetCut))
        await until(stage.written_down)
    assert stage.whole()


@pytest.mark.parametrize("lost", [False, True])
async def test_without_an_answer_about_epochs_the_last_batch_is_read(lost: bool) -> None:
    """A broker before Kafka 2.1, one that refuses, or one that leads no more."""

    async def say_nothing(
        epochs: Mapping[TopicPartition, int], led: Mapping[TopicPartition, Leader] | None = None
    ) -> dict[TopicPartition, EpochEnd]:
        assert (epochs, led) != ({}, None)
        return {}

    stage = Cut()
    async with a_second_owner(stage, count=1):
        stage.b.epoch_ends = say_nothing  # type: ignore[method-assign]
        if lost:
            elect_with_late_requests(stage, 3, 4, count=1)
        else:
            stage.b.leader[COPY] = Leader(2, 5, "id-A.t")
            stage.b.lose(1)
            stage.more()
        stage.a.grow()
        await until(lambda: bool(stage.told(TargetCut)) is lost and stage.written_down())
    assert stage.whole()
    assert bool(stage.told(TargetCut)) is lost


class Verified:
    """A verifier, and one lane that has appended offset 6 last."""

    def __init__(self, headers: Sequence[TailBatch] | Exception) -> None:
        self.cut: list[str] = []
        self.sent: list[object] = []
        self.headers = headers
        self.driver = Mock(leaders=LaneLeaders(), **{"name.target": COPY})
        self.driver.lane = Mock(state=State.COPYING, target_next=7)
        self.driver.lane.position = Mock(target_next=7, sequence=6, producer_id=41, producer_epoch=3, map_tail=())

    async def offsets(self, _partitions: object, _at: int) -> dict[TopicPartition, int]:
        return {COPY: 7}

    async def epoch_ends(self, _epochs: object, _led: object) -> dict[TopicPartition, EpochEnd]:
        return {}

    async def read_headers(self, _partition: TopicPartition, first: int, end: int) -> Sequence[TailBatch]:
        assert (first, end) == (6, 7)
        if isinstance(self.headers, Exception):
            raise self.headers
        return self.headers

    async def verify(self) -> list[str]:
        self.driver.leaders.lead_target(Leader(1, 4, "id"))
        async with asyncio.TaskGroup() as group:
            context = Mock(target=self, **{"tasks.spawn": group.create_task})
            events = Mock(cut_off=lambda _driver, why: self.cut.append(why))
            LeaderEndVerifier(context, Mock(schedule_send=self.sent.append), events).verify([self.driver])
        return self.cut


@pytest.mark.parametrize("left", [OffsetGone("reading"), []], ids=["deleted", "compacted"])
async def test_a_leader_that_has_nothing_left_there_is_believed(left: Sequence[TailBatch] | Exception) -> None:
    stage = Verified(left)
    assert await stage.verify() == []
    assert stage.sent == [[stage.driver]]


async def test_a_batch_that_cannot_be_read_is_left_to_the_acquisition() -> None:
    (why,) = await Verified(WireError("A.t", 0, 6, "bad")).verify()
    assert "offset 6 cannot be read" in why
