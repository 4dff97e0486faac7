"""Lanes that are taken without a barrier, and lanes that must not be."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from engine.base.errors import ConnectionLost
from engine.core.events.events import ForeignWriter, Resumed, TargetGap
from engine.core.lane.states import State
from engine.core.offset_map.map_runs import cut_runs
from engine.core.position.position import Position, encode_value
from engine.core.position.position_keys import PositionKeys
from engine.core.position.target_tail import TailBatch
from engine.flow.ports.ports import Leader
from engine.flow.replication import sets
from engine.wire.encode import encode_batch
from engine.wire.record import Record
from policies.model import TopicPartition
from tests.unit.engine.flow.stage import TERMS, Stage, until

SOURCE = TopicPartition("t", 0)


class Quiet(Stage):
    """A stage whose brokers all answer, so that none can know a newer leader."""

    def __init__(self, partitions: int = 1) -> None:
        super().__init__(partitions)
        self.b.all_answer = True

    def markers(self, partition: int = 0) -> int:
        """Count the markers in a copy."""
        return sum(one.header.is_control for one in self.targets[partition].batches)

    async def turn(self, count: int = 3, *, clean: bool = True) -> None:
        """Copy some more in a run of its own."""
        self.copier = self.new_copier()
        self.assign()
        if count:
            self.sources[0].data(count)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.copier.run())
            await until(lambda: self.whole() and self.state() is State.COPYING and self.written_down())
            self.events += self.copier.progress().events
            if clean:
                await self.copier.drain()
            else:
                task.cancel()

    def write(self, stored: Position) -> None:
        """Write a position as another owner would."""
        key = PositionKeys("A").encode(SOURCE)
        record = Record(offset=0, timestamp=0, key=key, value=encode_value(stored), headers=())
        self.positions.append(bytes(encode_batch([record], 0, producer_id=-1, producer_epoch=-1, base_sequence=-1)))


async def behind_a_barrier(stage: Quiet) -> None:
    """Leave a position behind the barrier of an owner before: neither it nor its next one copied anything."""
    for _ in range(20):
        await stage.turn()
    await stage.turn(clean=False)
    await stage.turn(0)
    await stage.turn(0)
    assert (stage.markers(), stage.stored().sequence) == (1, 0)


async def test_a_restart_behind_the_barrier_of_an_owner_before_reads_little() -> None:
    stage = Quiet()
    await behind_a_barrier(stage)
    read, firsts = stage.b.read_headers, list[int]()

    async def noted(partition: TopicPartition, first: int, end: int) -> list[TailBatch]:
        firsts.append(first)
        return await read(partition, first, end)

    stage.b.read_headers = noted  # type: ignore[method-assign]
    await stage.turn(0)
    assert firsts == [63]
    assert stage.targets[0].end == 64


async def test_such_a_lane_goes_on_where_the_map_lacks_records_on_purpose() -> None:
    stage = Quiet()
    await behind_a_barrier(stage)
    stored = stage.stored()
    stage.write(msgspec.structs.replace(stored, map_tail=cut_runs(stored.map_tail, 50)))
    await stage.turn(0)
    assert stage.told(TargetGap) == []


async def test_an_owner_without_a_barrier_believes_a_new_leader_with_the_records_before() -> None:
    stage = Quiet()
    await stage.turn()
    stage.copier = stage.new_copier()
    stage.assign()
    begun: list[str] = []
    async with stage.running():
        await until(lambda: stage.state() is State.COPYING and stage.written_down())
        stage.b.begun = begun.append
        target = stage.driver().name.target
        stage.b.leader[target] = Leader(2, 5, stage.b.leader[target].topic_id)
        stage.b.lose(1)
        stage.sources[0].data(2)
        stage.a.grow()
        await until(lambda: stage.whole() and stage.written_down())
    assert "acquire" not in begun


async def test_clean_runs_leave_no_marker_and_one_that_was_cut_off_leaves_one() -> None:
    stage = Quiet()
    for _ in range(3):
        await stage.turn()
        assert stage.stored().left
    assert (stage.markers(), stage.targets[0].end) == (0, 9)
    await stage.turn(clean=False)
    assert not stage.stored().left
    assert stage.markers() == 0
    for _ in range(2):
        await stage.turn()
        assert stage.markers() == 1
    assert stage.whole()
    assert [event.how for event in stage.events if isinstance(event, Resumed)] == ["start", *["position"] * 5]


async def test_a_broker_that_does_not_answer_may_know_a_newer_leader() -> None:
    stage = Quiet()
    stage.b.all_answer = False
    await stage.turn()
    assert stage.markers() == 1
    stage.b.all_answer = True
    await stage.turn()
    assert stage.markers() == 1
    stage.b.all_answer = False
    await stage.turn()
    assert stage.markers() == 2


async def test_an_owner_in_between_is_fenced() -> None:
    """It took the next epoch and has written nothing yet: what it sends later is refused by the marker only."""
    stage = Quiet()
    await stage.turn()
    await stage.b.enter(TERMS.transactional_id("t", 0))
    await stage.turn()
    assert stage.markers() == 1


async def test_a_first_start_of_an_id_that_was_there_before_has_its_barrier() -> None:
    stage = Quiet()
    await stage.b.enter(TERMS.transactional_id("t", 0))
    await stage.turn()
    assert stage.markers() == 1


async def test_a_first_start_onto_something_has_its_barrier() -> None:
    stage = Quiet()
    stage.targets[0].marker(7, 0)
    await stage.turn()
    assert stage.markers() == 2


@pytest.mark.parametrize(
    ("change", "markers"),
    [
        (lambda stored: stored, 0),
        (lambda stored: msgspec.structs.replace(stored, left=False), 1),
        (lambda stored: msgspec.structs.replace(stored, producer_id=stored.producer_id + 1), 1),
        (lambda stored: msgspec.structs.replace(stored, producer_epoch=stored.producer_epoch + 1), 1),
        (lambda stored: msgspec.structs.replace(stored, target_next=stored.target_next - 1), 1),
    ],
)
async def test_only_the_position_of_the_very_last_owner_counts(
    change: Callable[[Position], Position], markers: int
) -> None:
    stage = Quiet()
    await stage.turn()
    stage.write(change(stage.stored()))
    stage.copier = stage.new_copier()
    stage.assign()
    async with stage.running():
        await until(lambda: stage.state() is not State.ACQUIRING)
    assert stage.markers() == markers


async def test_what_is_written_between_the_look_and_the_epoch_is_seen_behind_it() -> None:
    stage = Quiet()
    await stage.turn()

    def strange(what: str) -> None:
        if what == "entered":
            stage.b.before = lambda _what: None
            stage.targets[0].foreign(2)

    stage.b.before = strange
    stage.copier = stage.new_copier()
    stage.assign()
    async with stage.running():
        await until(lambda: stage.told(ForeignWriter))
    assert stage.markers() == 1


async def test_the_same_holds_for_a_first_start() -> None:
    stage = Quiet()

    def marked(what: str) -> None:
        if what == "entered":
            stage.b.before = lambda _what: None
            stage.targets[0].marker(7, 0)

    stage.b.before = marked
    await stage.turn()
    assert stage.markers() == 2


async def test_a_lane_that_watched_is_taken_without_a_barrier_too() -> None:
    stage = Quiet(40)
    for log in stage.sources:
        log.data(1)
    stage.assign()
    async with stage.running():
        await until(lambda: all(stage.whole(index) for index in range(40)))
    stage.copier = stage.new_copier()
    stage.assign()
    async with stage.running():
        await until(lambda: all(stage.state(index) is State.WATCHING for index in range(40)))
        stage.sources[3].data(1)
        stage.a.grow()
        await until(lambda: stage.whole(3) and stage.written_down(3))
    assert [stage.markers(index) for index in range(40)] == [0] * 40


async def test_a_lane_that_was_lost_is_taken_behind_a_barrier() -> None:
    stage = Quiet()
    stage.sources[0].data(2)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.whole() and stage.written_down())
        stage.take_away()
        stage.sources[0].data(2)
        stage.a.grow()
        await until(stage.whole)
    assert stage.markers() == 2  # that of the other, and ours
    assert stage.stored().left


async def test_a_request_without_an_answer_costs_the_next_start_a_marker() -> None:
    stage = Quiet()
    stage.sources[0].data(2)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.whole() and stage.written_down())
        stage.b.mute.add(1)
        stage.sources[0].data(2)
        stage.a.grow()
        await until(stage.whole)
        stage.b.lose(1)
        stage.b.mute.discard(1)
        await until(lambda: stage.driver().lane.idle and stage.state() is State.COPYING)
    assert not stage.stored().left
    await stage.turn()
    assert stage.markers() == 1


async def test_the_fence_of_a_lane_without_a_barrier_is_renewed_beside_its_copy() -> None:
    stage = Quiet()
    options = msgspec.structs.replace(TERMS, keep_alive_s=0.05)
    stage.copier = stage.new_copier(options)
    stage.sources[0].data(2)
    stage.assign()
    async with stage.running():
        await until(lambda: sum(one.header.is_control for one in stage.positions.batches) >= 2)
    assert stage.markers() == 0
    assert sum(one.header.is_control for one in stage.blocks.batches) >= 1


async def test_a_lane_in_transactions_has_its_barrier() -> None:
    stage = Quiet()
    stage.copier = stage.new_copier(msgspec.structs.replace(TERMS, commit_s=0.05))
    stage.sources[0].data(2)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
    assert stage.markers() >= 1
    assert not stage.stored().left


async def test_without_transactional_ids_nobody_says_that_he_has_left() -> None:
    stage = Quiet()
    stage.b.fenced = False
    await stage.turn()
    assert not stage.stored().left


async def test_a_stop_waits_a_moment_only_for_the_position_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is durable already where the copy ends; what is left saves the next start a barrier, no more."""
    monkeypatch.setattr(sets, "_PART_S", 0.05)
    stage = Quiet()
    stage.sources[0].data(2)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.whole() and stage.written_down())
        stage.b.frozen.add(1)
    assert not stage.stored().left
    assert stage.stored().source_next == 2


async def test_an_epoch_whose_answer_was_lost_may_have_been_given_out() -> None:
    stage = Quiet()
    asked: list[str] = []

    def lose(what: str) -> None:
        if what == "entered" and not asked:
            asked.append(what)
            raise ConnectionLost("the coordinator")

    stage.b.before = lose
    await stage.turn()
    assert asked == ["entered"]
    assert stage.markers() == 1


async def test_positions_that_cannot_be_read_beforehand_cost_a_marker_and_no_attempt() -> None:
    stage = Quiet()
    reads: list[str] = []

    def away(what: str, _partitions: object) -> None:
        if what == "read records" and not reads:
            reads.append(what)
            raise ConnectionLost("broker 3")

    stage.b.fail = away
    await stage.turn()
    assert reads == ["read records"]
    assert stage.markers() == 1
