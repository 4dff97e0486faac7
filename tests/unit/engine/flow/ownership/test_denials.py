"""Rights that are removed and given back, and reads that retention overtakes: no lane stops for good."""

from collections.abc import Callable, Sequence

import msgspec
import pytest

from engine.base.errors import KafkaRefusal, OffsetGone
from engine.core.events.events import AccessDenied, LaneRefused, LaneReleased, RecordRefused, Resumed
from engine.core.lane.actions import Inspect, ReadTail
from engine.core.lane.states import State
from engine.core.offset_map import map_runs
from engine.flow.ownership import scheduler as acquisitions
from engine.kafka.data.source import fetch_fault
from policies.model import TopicPartition
from tests.unit.engine.flow.stage import POSITIONS, TERMS, Stage, until

DENIED = KafkaRefusal("offsets of A.t-1", 29, "TopicAuthorizationFailed", "grant Read and Describe on the topic")
BAD = TopicPartition("A.t", 1)


def stage_of(partitions: int = 2) -> Stage:
    stage = Stage(partitions)
    for source in stage.sources:
        source.data(2)
    return stage


def failing(asked: str, error: Exception, times: int) -> Callable[[str, Sequence[TopicPartition]], None]:
    """Fail what is asked about one partition, so often."""
    left = [times]

    def fail(what: str, partitions: Sequence[TopicPartition]) -> None:
        if what == asked and BAD in partitions and left[0] > 0:
            left[0] -= 1
            raise error

    return fail


@pytest.mark.parametrize("asked", ["acquire", "offsets", "producers", "read headers"])
async def test_a_lane_without_a_right_waits_alone_for_its_owner(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acquisitions, "_PATIENCE_S", 0.01)
    stage = stage_of(3)
    for target in stage.targets:
        target.marker(5, 0)  # so that the first look reads headers
    stage.b.fail = failing(asked, DENIED, 6)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.whole(0) and stage.whole(2) and stage.told(AccessDenied))
        await until(lambda: stage.whole(1))
    (denied,) = stage.told(AccessDenied)
    (released,) = stage.told(LaneReleased)
    assert isinstance(denied, AccessDenied)
    assert isinstance(released, LaneReleased)
    assert denied.lane == released.lane == TopicPartition("t", 1)
    assert "grant Read" in denied.text()
    assert stage.told(LaneRefused) == []
    assert stage.driver(1).health.reason == ""


@pytest.mark.parametrize("watching", [False, True])
async def test_a_lane_that_may_not_fetch_waits_alone_and_says_so_once(watching: bool) -> None:
    stage = stage_of(40)  # so many that those without anything to copy only watch
    stage.assign()
    async with stage.running():
        await until(lambda: all(stage.whole(index) for index in range(40)))
    if watching:
        stage.copier = stage.new_copier()
        stage.assign(epoch=2)
    else:
        stage.copier = stage.new_copier()
        stage.sources[1].data(1)
        stage.assign(epoch=2)
    bad = TopicPartition("t", 1)
    async with stage.running():
        await until(lambda: all(stage.driver(index).lane.listens for index in range(40)) and stage.whole(1))
        assert (stage.state(1) is State.WATCHING) is watching
        stage.a.fault = lambda want: fetch_fault(29, "t") if want.partition == bad else None
        for index in (0, 1):
            stage.sources[index].data(3)
        stage.a.grow()
        await until(lambda: stage.whole(0) and stage.driver(1).leaders.faults > 1)
        assert "grant Read on topic t" in stage.driver(1).health.reason
        assert stage.told(LaneReleased) == []
        stage.a.fault = lambda _want: None
        await until(lambda: stage.whole(1))
    assert len(stage.told(AccessDenied)) == len(stage.told(LaneReleased)) == 1
    assert stage.driver(1).health.reason == ""


async def test_a_lane_with_nothing_to_fetch_says_that_it_may_again() -> None:
    stage = stage_of(1)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        stage.a.fault = lambda _want: fetch_fault(29, "t")
        stage.a.grow()
        await until(lambda: stage.told(AccessDenied))
        stage.a.fault = lambda _want: None
        await until(lambda: stage.told(LaneReleased))


@pytest.mark.parametrize("action", [Inspect(0, 1), ReadTail(0)])
@pytest.mark.parametrize("code", [29, 42])
async def test_a_read_of_the_target_that_is_refused_waits_for_a_right_only(
    action: Inspect | ReadTail, code: int
) -> None:
    stage = stage_of()
    stage.assign()
    async with stage.running():
        await until(lambda: stage.whole(1))
        stage.b.fail = failing("read headers", KafkaRefusal("reading", code, "no", ""), 2)
        if isinstance(action, ReadTail):
            stage.driver(1).lane.state = State.SETTLING
        stage.copier._failures.perform(stage.driver(1), action)
        if code == 42:
            await until(lambda: stage.state(1) is State.FAILED)
            assert len(stage.told(LaneRefused)) == 1
            return
        await until(lambda: stage.told(AccessDenied) and stage.told(LaneReleased))
        stage.sources[1].data(2)
        stage.a.grow()
        await until(lambda: stage.whole(1))


@pytest.mark.parametrize("times", [1, 7])
async def test_a_tail_that_retention_takes_while_it_is_read_is_judged_again(times: int) -> None:
    """Seven times in a row: then all of the acquisition begins again."""
    stage = stage_of()
    stage.assign()
    async with stage.running():
        await until(lambda: stage.whole(0) and stage.whole(1))
    stage.copier = stage.new_copier()
    stage.take_away(1)  # a marker behind the position, so that headers are read
    stage.sources[1].data(2)
    stage.b.fail = failing("read headers", OffsetGone("reading A.t-1 at 3"), times)
    barriers: list[str] = []
    stage.b.begun = barriers.append
    stage.assign(epoch=2)
    async with stage.running():
        await until(lambda: stage.whole(1))
    assert stage.told(LaneRefused) == []
    assert barriers.count("acquire") == 2 + (times > 5)
    assert len(stage.told(Resumed)) == 2


async def test_records_that_may_not_be_appended_are_a_missing_right_and_go_later() -> None:
    stage = stage_of()
    stage.assign()
    async with stage.running():
        await until(lambda: stage.whole(0) and stage.whole(1))
        stage.targets[1].denied = True
        for source in stage.sources:
            source.data(2)
        stage.a.grow()
        await until(lambda: stage.told(AccessDenied) and stage.whole(0))
        assert "append: " in stage.driver(1).health.reason
        assert not stage.whole(1)
        stage.targets[1].denied = False
        await until(lambda: stage.whole(1) and stage.told(LaneReleased))
    assert len(stage.told(AccessDenied)) == len(stage.told(LaneReleased)) == 1
    assert stage.told(RecordRefused) == []
    assert stage.driver(1).health.reason == ""


@pytest.mark.parametrize("transactional", [False, True])
async def test_a_position_that_may_not_be_written_holds_its_lane_and_goes_later(transactional: bool) -> None:
    stage = stage_of(1)
    if transactional:
        stage.copier = stage.new_copier(msgspec.structs.replace(TERMS, commit_s=0.02))
    stage.assign()
    async with stage.running():
        await until(lambda: stage.whole() and stage.written_down())
        copied = len(stage.copied())
        stage.positions.denied = True
        stage.sources[0].vanish(3)  # what comes behind needs a position with a new run
        stage.sources[0].data(2)
        stage.a.grow()
        await until(lambda: stage.told(AccessDenied) or stage.state() is State.FAILED)
        assert stage.state() is not State.FAILED
        await until(lambda: stage.driver().positions._attempt > 3)
        assert len(stage.copied()) == copied
        assert f"position in topic {POSITIONS}" in stage.driver().health.reason
        assert stage.told(LaneReleased) == []
        stage.positions.denied = False
        await until(stage.whole)
        await until(lambda: stage.told(LaneReleased))
        assert stage.driver().health.reason == ""
    assert len(stage.told(AccessDenied)) == len(stage.told(LaneReleased)) == 1
    assert stage.stored().source_next == stage.sources[0].end


async def test_what_needs_no_position_is_copied_while_none_may_be_written() -> None:
    stage = stage_of(1)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.whole() and stage.written_down())
        stage.positions.denied = True
        stage.sources[0].data(4)
        stage.a.grow()
        await until(lambda: stage.whole() or stage.state() is State.FAILED)
        await until(lambda: stage.told(AccessDenied) or stage.state() is State.FAILED)
        stage.sources[0].data(4)
        stage.a.grow()
        await until(lambda: stage.whole() or stage.state() is State.FAILED)
        assert stage.state() is State.COPYING
    assert stage.stored().source_next < stage.sources[0].end  # the lane left without, and nobody waited for it


async def test_a_map_and_positions_that_may_not_be_written_are_asked_for_at_a_steady_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(map_runs, "RUNS_PER_BLOCK", 2)
    stage = stage_of(1)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.whole() and stage.written_down())
        for _ in range(4):
            stage.sources[0].vanish(1)
            stage.sources[0].data(1)
        stage.blocks.denied = True
        stage.a.grow()
        await until(lambda: stage.told(AccessDenied) or stage.state() is State.FAILED)
        stage.positions.denied = True
        stage.driver().positions.flush_asked = True
        stage.sources[0].vanish(1)
        stage.sources[0].data(1)
        stage.a.grow()
        await until(lambda: len(stage.told(AccessDenied)) == 2 or stage.state() is State.FAILED)
        assert stage.state() is State.COPYING
        before = stage.driver().blocks._attempt
        await until(lambda: stage.driver().positions._attempt > 12)
        assert stage.driver().blocks._attempt - before < 40  # each asks for itself: no answer makes two questions
        stage.positions.denied = False
        await until(lambda: len(stage.told(LaneReleased)) == 1)
        assert "offset map" in stage.driver().health.reason  # the other right is still away
        stage.blocks.denied = False
        await until(lambda: len(stage.told(LaneReleased)) == 2 and stage.whole())
        assert stage.driver().health.reason == ""
    assert len(stage.told(AccessDenied)) == 2
    assert stage.stored().map_blocks > 0


@pytest.mark.parametrize("code", [29, 53, 47])
async def test_a_fence_that_may_not_be_kept_alive_waits_for_the_right_only(code: int) -> None:
    """Who is replaced is acquired again; who has lost a right keeps the lane, however long that takes."""
    stage = stage_of()
    stage.copier = stage.new_copier(msgspec.structs.replace(TERMS, flush_s=0.05, unsynced_s=0.05, keep_alive_s=0.1))
    stage.assign()
    barriers: list[str] = []
    async with stage.running():
        await until(lambda: stage.whole(0) and stage.whole(1) and stage.written_down(1))
        stage.b.begun = barriers.append
        stage.b.fail = failing("keep alive", KafkaRefusal("transactional id", code, "no", "grant Write"), 3)
        if code == 47:
            await until(lambda: "acquire" in barriers)
            return
        await until(lambda: stage.told(AccessDenied) or "acquire" in barriers)
        await until(lambda: stage.told(LaneReleased) or "acquire" in barriers)
        assert "acquire" not in barriers
        assert stage.driver(1).attempts.in_a_row == 0
        assert stage.driver(1).health.reason == ""
    assert len(stage.told(AccessDenied)) == len(stage.told(LaneReleased)) == 1
