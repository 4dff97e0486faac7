"""A whole flow on clusters in memory: copying, pausing, releasing, and one bad lane that must not disturb others."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.core.events.events import LaneRefused, RecordRefused, Resumed, SourceGap
from engine.core.lane.states import State
from engine.flow.io.leaders import SourceLeaders
from engine.flow.ports.ports import Leader
from policies.model import LaneName, PartitionSet, TopicPartition
from tests.fakes.brokers import HeldTarget
from tests.unit.engine.flow.stage import TERMS, Stage, until


async def test_everything_is_copied_in_order_and_the_position_says_so() -> None:
    stage = Stage(3)
    for source in stage.sources:
        source.data(5)
        source.aborted_data(2, 7)
        source.data(4, holes=frozenset({1}))
    stage.assign()
    async with stage.running():
        await until(lambda: all(stage.whole(index) for index in range(3)))
        stage.sources[1].data(3)
        stage.a.grow()
        await until(lambda: stage.whole(1))
    assert all(stage.whole(index) for index in range(3))
    assert stage.copier.router.pool.used_bytes == 0
    assert len(stage.told(Resumed)) == 3
    assert stage.stored().source_next == stage.sources[0].end or stage.stored().source_next == stage.sources[1].end


async def test_a_paused_flow_fetches_nothing_and_goes_on_when_resumed() -> None:
    stage = Stage()
    stage.sources[0].data(3)
    stage.copier.pause(None)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.state() is State.COPYING and stage.driver().positions.settled)
        assert stage.copied() == []
        assert stage.copier.progress().lanes[0].state == "paused"
        stage.copier.resume(None)
        await until(stage.whole)


async def test_a_paused_lane_writes_where_it_stands() -> None:
    stage = Stage()
    stage.copier = stage.new_copier(msgspec.structs.replace(TERMS, flush_s=1e6, unsynced_s=1e6))
    stage.assign()
    async with stage.running():
        await until(lambda: stage.driver().positions.settled)
        stage.sources[0].data(5)
        stage.a.grow()
        await until(stage.whole)
        assert stage.stored().source_next == 0
        stage.copier.pause(None)
        await until(lambda: stage.copier.progress().lanes[0].committed)
        assert stage.stored().source_next == 5


async def test_a_paused_topic_stays_paused_while_others_go_on() -> None:
    stage = Stage()
    other = stage.a.source("u")
    copy = stage.b.target("A.u")
    stage.sources[0].data(3)
    other.data(2)
    stage.assign()
    name = LaneName(TopicPartition("u", 0), TopicPartition("A.u", 0))
    stage.copier.assign(PartitionSet(set_id="u", flow=TERMS.flow, epoch=1, lanes=(name,)))
    stage.copier.pause(frozenset({"t"}))
    async with stage.running():
        await until(lambda: copy.records())
        assert stage.copied() == []
        stage.copier.resume(frozenset({"t"}))
        await until(stage.whole)


async def test_a_released_set_leaves_a_durable_position_and_nothing_else() -> None:
    stage = Stage(2)
    for source in stage.sources:
        source.data(3)
    stage.assign(set_id="kept", only=[1])
    stage.assign(set_id="moved", only=[0])
    async with stage.running():
        await until(lambda: stage.whole(0) and stage.whole(1))
        await stage.copier.release("moved")
        assert list(stage.copier.drivers) == [TopicPartition("t", 1)]
        assert stage.stored().source_next == 3
        stage.sources[1].data(1)
        stage.a.grow()
        await until(lambda: stage.whole(1))


async def test_a_set_that_is_released_while_it_is_acquired_harms_nobody() -> None:
    stage = Stage(2)
    stage.sources[1].data(3)
    stage.assign(set_id="kept", only=[1])
    async with stage.running():
        await until(lambda: stage.whole(1))
        releasing: list[asyncio.Task[None]] = []
        async with asyncio.TaskGroup() as group:
            stage.b.before = lambda _asked: releasing.append(group.create_task(stage.copier.release("gone")))
            stage.assign(set_id="gone", only=[0])
            await until(lambda: releasing and releasing[0].done())
            stage.b.before = lambda _asked: None
        stage.sources[1].data(1)
        stage.a.grow()
        await until(lambda: stage.whole(1))
    assert TopicPartition("t", 0) not in stage.copier.drivers


def _refuse(stage: Stage, asked: str, partition: TopicPartition, error: Exception, times: int) -> None:
    left = [times]

    def fail(what: str, partitions: Sequence[TopicPartition]) -> None:
        if what == asked and partition in partitions and left[0] > 0:
            left[0] -= 1
            raise error

    stage.b.fail = fail


async def test_one_lane_that_may_not_be_acquired_does_not_hold_the_others() -> None:
    stage = Stage(4)
    for source in stage.sources:
        source.data(2)
    refusal = KafkaRefusal("transactional id x", 42, "InvalidRequest", "")
    _refuse(stage, "acquire", TopicPartition("A.t", 2), refusal, 100)
    stage.assign()
    async with stage.running():
        await until(lambda: all(stage.whole(index) for index in (0, 1, 3)))
        await until(lambda: stage.state(2) is State.FAILED)
        assert len(stage.told(LaneRefused)) == 1
        stage.b.fail = lambda _asked, _partitions: None
        stage.copier.resume(None)
        await until(lambda: stage.whole(2))


async def test_a_lane_owned_before_its_neighbour_failed_can_be_acquired_again_and_was_told() -> None:
    stage = Stage(2)
    for source, target in zip(stage.sources, stage.targets, strict=True):
        source.data(2)
        target.marker(5, 0)  # so that the first look reads headers
    _refuse(stage, "read headers", TopicPartition("A.t", 1), ConnectionLost("b:1"), 1)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.whole(0) and stage.whole(1))
        assert len(stage.told(Resumed)) == 2
        transactional_id = TERMS.transactional_id("t", 0)
        producer_id, epoch = stage.b.transactional[transactional_id]
        stage.b.transactional[transactional_id] = producer_id, epoch + 1
        stage.targets[0].marker(producer_id, epoch + 1)  # somebody fences the lane
        stage.sources[0].data(2)
        stage.a.grow()
        await until(lambda: stage.whole(0) and stage.driver(0).attempts.reacquired == 0)


async def test_a_lost_connection_and_a_moved_leader_lose_and_repeat_nothing() -> None:
    stage = Stage()
    stage.assign()
    async with stage.running():
        for round_ in range(6):
            stage.sources[0].data(3)
            stage.a.grow()
            if round_ % 2:
                stage.b.lose(1)
                stage.b.lose(2)
            else:
                stage.b.leader[TopicPartition("A.t", 0)] = Leader(1 + round_ % 4 // 2, round_, "id-A.t")
            await until(stage.whole)


async def test_a_batch_above_the_targets_limit_is_split_also_where_the_limit_may_not_be_asked() -> None:
    stage = Stage()
    stage.sources[0].data(8)
    stage.targets[0].max_bytes = 120
    refusal = KafkaRefusal("configs", 29, "TopicAuthorizationFailed", "")
    _refuse(stage, "configs", TopicPartition("A.t", -1), refusal, 1000)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
    assert len(stage.targets[0].batches) > 3


async def test_a_refused_record_is_named_and_goes_when_the_target_is_mended() -> None:
    stage = Stage()
    stage.sources[0].data(3)
    stage.targets[0].refuses = lambda key: key == b"1"
    stage.assign()
    async with stage.running():
        await until(lambda: stage.told(RecordRefused))
        assert stage.state() is not State.FAILED
        stage.targets[0].refuses = lambda _key: False
        await until(stage.whole)
        assert len(stage.told(RecordRefused)) == 1


async def test_a_source_that_dropped_what_was_never_copied_is_a_gap() -> None:
    stage = Stage()
    stage.sources[0].data(2)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        stage.sources[0].data(5)
        stage.sources[0].start = 4
        stage.a.grow()
        await until(lambda: stage.state() is State.FAILED)
    (gap,) = stage.told(SourceGap)
    assert isinstance(gap, SourceGap)
    assert (gap.first, gap.last) == (2, 3)


async def test_a_source_that_lost_what_was_copied_is_a_gap_while_running_and_at_resume() -> None:
    stage = Stage(2)
    for source in stage.sources:
        source.data(2)
        source.data(3)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.whole(0) and stage.whole(1))
        stage.sources[0].truncate(2)
        stage.sources[0].data(7)  # as many and more again, but not the same
        stage.a.grow()
        await until(lambda: stage.state(0) is State.FAILED)
        assert stage.state(1) is State.COPYING
    assert len(stage.told(SourceGap)) == 1
    stage.sources[1].truncate(2)
    stage.sources[1].data(7)
    stage.copier = stage.new_copier()
    stage.assign(epoch=2, only=[1])
    async with stage.running():
        await until(lambda: stage.state(1) is State.FAILED)
    gaps = {gap.lane.partition: (gap.first, gap.last) for gap in stage.told(SourceGap) if isinstance(gap, SourceGap)}
    assert gaps == {0: (2, 4), 1: (2, 4)}
    assert [stage.copied(number) for number in (0, 1)] == [[0, 1, 2, 3, 4]] * 2


async def test_a_lane_reads_from_its_nearest_replica_and_returns_to_the_leader_when_that_dies() -> None:
    stage = Stage()
    stage.sources[0].data(2)
    where = TopicPartition("t", 0)
    stage.a.preferred[where] = 3
    stage.assign()
    async with stage.running():
        await until(lambda: stage.whole() and stage.a.fetches[-1][0] == 3)
        stage.a.preferred.clear()
        stage.a.down.add(3)
        stage.sources[0].data(2)
        await until(lambda: stage.whole() and stage.a.fetches[-1][0] == 1)


async def test_the_leader_is_asked_anew_which_replica_is_nearest() -> None:
    stage = Stage()
    stage.sources[0].data(2)
    where = TopicPartition("t", 0)
    stage.a.preferred[where] = 3
    stage.assign()
    async with stage.running():
        await until(lambda: stage.whole() and stage.a.fetches[-1][0] == 3)
        stage.a.preferred[where] = 2  # 3 has fallen behind, and answers as if nothing were new
        leaders = stage.copier.router.leaders
        assert isinstance(leaders.source, SourceLeaders)
        leaders.source._nearest_at_s -= 3600.0
        leaders.source._all_at_s = 0.0
        leaders.look_up([stage.driver()])
        await until(lambda: stage.a.fetches[-1][0] == 2)


async def test_progress_tells_set_and_epoch_of_each_lane_and_a_beat_that_goes_on() -> None:
    stage = Stage(2)
    stage.assign(set_id="one", only=[0], epoch=3)
    stage.assign(set_id="two", only=[1], epoch=4)
    async with stage.running():
        before = stage.copier.progress()
        assert {(lane.set_id, lane.epoch) for lane in before.lanes} == {("one", 3), ("two", 4)}
        await until(lambda: stage.copier.progress().beat > before.beat)


async def test_a_copier_that_is_cancelled_with_appends_in_flight_begins_nothing_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage, held = Stage(), HeldTarget()
    stage.sources[0].data(3)

    async def broker(_node: int) -> HeldTarget:
        return held

    monkeypatch.setattr(stage.b, "target_broker", broker)
    stage.assign()
    running = asyncio.create_task(stage.copier.run())
    await until(lambda: held.requests)
    held.answer()  # the first position
    await until(lambda: held.requests and held.requests[0][0][0].partition.topic == "A.t")
    running.cancel()
    await asyncio.wait([running])  # the connection closes, so the outcome is unknown: there is nobody to try again
    assert running.cancelled()


async def test_records_that_arrive_are_sent_before_the_next_fetch_is_made() -> None:
    stage = Stage()
    stage.sources[0].data(2)
    stage.assign()
    calls: list[str] = []
    async with stage.running():
        await until(lambda: stage.whole() and stage.written_down())
        stage.a.begun = stage.b.begun = calls.append
        stage.sources[0].data(5)
        stage.a.grow()
        await until(lambda: "append" in calls and stage.whole())
        at = calls.index("append")
    assert "fetch" not in calls[:at], "the waiting fetch was made before"
