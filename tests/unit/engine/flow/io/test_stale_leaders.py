"""Old leaders that still answer: thawed, or cut off from their controller. Their answers are not final."""

from collections.abc import Awaitable, Callable, Sequence

import pytest

from engine.core.events.events import LaneRefused, Resumed, SourceGap, TargetCut, TargetGap
from engine.core.lane.states import State
from engine.core.position.target_tail import TailBatch
from engine.flow.ports.ports import LATEST, Cluster, FetchFault, Leader, PartitionFetch
from engine.kafka.data.source import fetch_fault
from policies.model import TopicPartition
from tests.fakes.cluster import OUT_OF_RANGE, UNKNOWN_LEADER_EPOCH
from tests.unit.engine.flow.stage import POSITIONS, Stage, until

SOURCE, COPY = TopicPartition("t", 0), TopicPartition("A.t", 0)


class Stale(Stage):
    """A lane that has copied; then some of what is asked goes to a leader whose log ended earlier."""

    def __init__(self) -> None:
        super().__init__()
        self.lies = 0
        """Answers of the past so far."""
        self.lying = True

    async def fill(self) -> None:
        driver = self.driver()
        self.sources[0].data(2)
        self.a.grow()
        await until(lambda: self.whole() and self.written_down() and driver.lane.in_flight == 0)

    def past(self, cluster: Cluster, where: TopicPartition, end: int) -> None:
        """Let a cluster tell an old end of a partition, and read no further."""
        offsets, headers = cluster.offsets, cluster.read_headers

        async def old_offsets(partitions: Sequence[TopicPartition], at: int) -> dict[TopicPartition, int]:
            found = await offsets(partitions, at)
            if self.lying and where in found and at == LATEST:
                self.lies += 1
                found[where] = min(found[where], end)
            return found

        async def old_headers(partition: TopicPartition, first: int, until_: int) -> list[TailBatch]:
            rows = await headers(partition, first, until_)
            return [row for row in rows if row.next_offset <= end] if self.lying and partition == where else rows

        _replace(cluster, "offsets", old_offsets)
        _replace(cluster, "read_headers", old_headers)


def _replace(cluster: Cluster, name: str, how: Callable[..., Awaitable[object]]) -> None:
    setattr(cluster, name, how)


async def test_what_a_leader_of_the_past_ends_with_is_not_the_end_of_the_copy() -> None:
    stage = Stale()
    stage.assign()
    async with stage.running():
        await stage.fill()
        past = stage.targets[0].end
        await stage.fill()
        stage.past(stage.b, COPY, past)
        stage.b.leader[COPY] = Leader(2, 1, "id-A.t")  # doubts ask, and are told the old end
        stage.b.lose(1)
        await until(lambda: stage.lies >= 4)  # acquired anew, and read behind a barrier that the answer does not have
        assert stage.told(TargetCut) == stage.told(TargetGap) == []
        stage.lying = False
        await until(lambda: stage.state() is State.COPYING)
        await stage.fill()
    assert stage.told(TargetCut) == stage.told(TargetGap) == []
    assert [event.how for event in stage.told(Resumed) if isinstance(event, Resumed)] == ["start", "position"]


async def test_a_log_without_our_own_marker_is_not_read_behind_our_barrier() -> None:
    """Before the barrier the right leader was asked, behind it one that lacks the marker alone."""
    stage = Stale()
    stage.assign()
    async with stage.running():
        await stage.fill()
        headers, hidden = stage.b.read_headers, 0

        async def without_the_newest(partition: TopicPartition, first: int, end: int) -> list[TailBatch]:
            nonlocal hidden
            rows = await headers(partition, first, end)
            hidden += stage.lying
            return [row for row in rows if not row.is_control] if stage.lying else rows

        _replace(stage.b, "read_headers", without_the_newest)
        stage.take_away()
        stage.sources[0].data(2)
        stage.a.grow()
        await until(lambda: hidden >= 2)
        assert len(stage.told(Resumed)) == 1
        stage.lying = False
        await until(stage.whole)


async def test_positions_of_a_leader_of_the_past_are_not_the_last_ones() -> None:
    stage = Stale()
    stage.assign()
    async with stage.running():
        await stage.fill()
        past = stage.positions.end
        await stage.fill()
    stage.past(stage.b, TopicPartition(POSITIONS, 0), past)
    stage.copier = stage.new_copier()
    stage.assign(epoch=2)
    async with stage.running():
        await until(lambda: stage.lies >= 4)
        assert stage.told(Resumed) == []
        stage.lying = False
        await stage.fill()
    assert len(stage.told(Resumed)) == 1


async def test_the_end_of_a_source_leader_of_the_past_is_no_gap() -> None:
    stage = Stale()
    stage.assign()
    async with stage.running():
        await stage.fill()
    stage.past(stage.a, SOURCE, 1)
    surveyed: list[str] = []

    def before(asked: str) -> None:
        surveyed.append(asked)
        stage.lying = False  # every broker was asked who leads: the new leader is known

    stage.a.before = before
    stage.copier = stage.new_copier()
    stage.assign(epoch=2)
    async with stage.running():
        await stage.fill()
    assert surveyed == ["survey"]
    assert stage.told(SourceGap) == []


async def test_a_source_leader_of_an_older_epoch_than_what_was_copied_is_no_leader() -> None:
    stage = Stale()
    stage.a.leader[SOURCE] = Leader(1, 9, "id-t")
    stage.assign()
    async with stage.running():
        await stage.fill()
        copied_of = stage.driver().lane.source_leader_epoch
    assert copied_of > 0
    stage.past(stage.a, SOURCE, 1)
    stage.a.leader[SOURCE] = Leader(1, copied_of - 1, "id-t")
    stage.copier = stage.new_copier()
    stage.assign(epoch=2)
    async with stage.running():
        await until(lambda: stage.lies >= 4)
        assert stage.state() is State.ACQUIRING
        stage.lying = False
        stage.a.leader[SOURCE] = Leader(1, 9, "id-t")
        await stage.fill()
    assert stage.told(SourceGap) == []


@pytest.mark.parametrize("what", ["out of range", "diverging"])
async def test_what_a_source_leader_of_the_past_finds_wrong_is_no_gap(what: str) -> None:
    stage = Stale()
    stage.a.leader[SOURCE] = Leader(1, 9, "id-t")
    stage.assign()
    async with stage.running():
        await stage.fill()
        driver, asked = stage.driver(), 0
        stage.past(stage.a, SOURCE, 1)
        stage.a.leader[SOURCE] = Leader(2, driver.lane.source_leader_epoch - 1, "id-t")
        parts_at = stage.sources[0].parts_at

        def old() -> bool:
            return stage.lying and driver.leaders.source.node == 2

        def answer(_want: PartitionFetch) -> FetchFault | None:
            nonlocal asked
            asked += old()
            return fetch_fault(OUT_OF_RANGE, "t") if old() and what == "out of range" else None

        stage.a.fault = answer
        if what == "diverging":
            log = stage.sources[0]
            log.parts_at = lambda epoch, offset: (0, 1) if old() else parts_at(epoch, offset)  # type: ignore[method-assign]
        stage.copier.router.leaders.look_up([driver])
        stage.a.grow()
        await until(lambda: asked >= 3)
        assert stage.told(SourceGap) == []
        stage.lying = False
        stage.a.leader[SOURCE] = Leader(1, 9, "id-t")
        await stage.fill()
    assert stage.told(SourceGap) == []


@pytest.mark.parametrize("all_answer", [True, False])
async def test_a_source_that_all_its_brokers_say_is_of_a_former_epoch_stops_the_lane(all_answer: bool) -> None:
    stage = Stale()
    stage.assign()
    async with stage.running():
        await stage.fill()
        await until(lambda: stage.stored().source_leader_epoch > 1)
    asked = list[str]()
    stage.a.before, stage.a.all_answer = asked.append, all_answer
    stage.a.leader[SOURCE] = Leader(1, 1, "id-t")
    stage.copier = stage.new_copier()
    stage.assign(epoch=2)
    async with stage.running():
        if all_answer:
            await until(lambda: stage.state() is State.FAILED)
            (event,) = stage.told(LaneRefused)
            assert isinstance(event, LaneRefused)
            assert "reports leader epoch 1 for this partition" in event.what
            assert "delete topic A.t on B" in event.what
        else:  # one that is away may know better
            await until(lambda: "survey" in asked and stage.state() is State.COPYING)
            assert not stage.told(LaneRefused)


@pytest.mark.parametrize("all_answer", [True, False])
async def test_a_source_that_becomes_one_of_a_former_epoch_stops_the_running_lane(all_answer: bool) -> None:
    stage = Stale()
    stage.assign()
    async with stage.running():
        await stage.fill()
        copied = stage.driver().lane.source_leader_epoch
        asked = list[str]()
        stage.a.before, stage.a.all_answer = asked.append, all_answer
        stage.a.leader[SOURCE] = Leader(1, 1, "id-t")
        stage.a.fault = lambda _want: fetch_fault(UNKNOWN_LEADER_EPOCH, "t")
        stage.a.grow()
        if all_answer:
            await until(lambda: stage.state() is State.FAILED)
            (event,) = stage.told(LaneRefused)
            assert isinstance(event, LaneRefused)
            assert f"leader epoch 1 for this partition, but records of leader epoch {copied} were copied" in event.what
            assert stage.driver().health.reason == event.text()
        else:
            await until(lambda: "survey" in asked)
            assert stage.state() is State.COPYING
            assert not stage.told(LaneRefused)


async def test_a_newer_leader_that_the_survey_finds_is_believed() -> None:
    stage = Stale()
    stage.assign()
    async with stage.running():
        await stage.fill()
        await until(lambda: stage.stored().source_leader_epoch > 1)
    present = stage.a.leader[SOURCE]

    def survey(asked: str) -> None:
        if asked == "survey":
            stage.a.leader[SOURCE] = present

    stage.a.before, stage.a.all_answer = survey, True
    stage.a.leader[SOURCE] = Leader(1, 1, "id-t")
    stage.copier = stage.new_copier()
    stage.assign(epoch=2)
    async with stage.running():
        await until(lambda: stage.state() is State.COPYING)
    assert not stage.told(LaneRefused)
