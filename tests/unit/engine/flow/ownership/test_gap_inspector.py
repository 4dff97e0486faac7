"""Target offsets of another producer, checked one gap at a time however busy that producer is."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import msgspec
import pytest

from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.core.events.events import ForeignWriter, LaneRefused
from engine.core.lane.actions import Inspect
from engine.core.lane.states import State
from engine.core.position.target_tail import TailBatch
from engine.flow.ports.ports import LATEST
from policies.model import TopicPartition
from tests.fakes.brokers import turns
from tests.fakes.cluster import FakeCluster
from tests.unit.engine.flow.stage import TERMS, Stage, until

GAPS = 50


class Slow(FakeCluster):
    """Holds reads of headers back while `open` is not set, and counts those that are out at once."""

    def __init__(self, alias: str) -> None:
        super().__init__(alias)
        self.open = asyncio.Event()
        self.open.set()
        self.out = self.most_out = self.reads = 0
        self.refusing: list[Exception] = []

    async def read_headers(self, partition: TopicPartition, first: int, end: int) -> list[TailBatch]:
        self.reads += 1
        self.out += 1
        self.most_out = max(self.most_out, self.out)
        try:
            await self.open.wait()
            if self.refusing:
                raise self.refusing.pop()
            return await super().read_headers(partition, first, end)
        finally:
            self.out -= 1


class Beside(Stage):
    """A copier beside whom somebody else writes to its target partition."""

    def __init__(self, *, stop: bool) -> None:
        super().__init__()
        self.slow = self.b = Slow("B")
        self.targets = [self.b.target("A.t", 0)]
        self.positions = self.b.target("mm2-offsets.A.internal")
        self.blocks = self.b.target("raymirror-map.A.internal")
        self.copier = self.new_copier(msgspec.structs.replace(TERMS, stop_on_foreign_writer=stop))
        self.sources[0].data(2)
        self.assign()

    async def gap(self, *, foreign: bool = True) -> None:
        """Somebody appends behind our last record, or we leave a marker there; then one more of ours is copied."""
        producer = self.driver().producer
        assert producer is not None
        if foreign:
            self.targets[0].foreign(1)
        else:
            self.targets[0].marker(producer.producer_id, producer.epoch)
        self.sources[0].data(1)
        self.a.grow()
        await until(lambda: self.stopped() or self.whole())

    def stopped(self) -> bool:
        return self.state() is State.FAILED

    def foreign_told(self) -> list[ForeignWriter]:
        return [one for one in self.told(ForeignWriter) if isinstance(one, ForeignWriter)]


async def test_a_busy_writer_is_looked_at_once_at_a_time_and_told_once_a_minute() -> None:
    stage = Beside(stop=False)
    async with stage.running():
        await until(stage.whole)
        stage.slow.most_out = stage.slow.reads = 0
        stage.slow.open.clear()
        for _ in range(GAPS):
            await stage.gap()
        stage.slow.open.set()
        await until(stage.foreign_told)
        for _ in range(GAPS):
            await stage.gap()
        await turns()
        assert stage.slow.most_out == 1
        assert stage.slow.reads < 5
        assert stage.state() is State.COPYING
    (event,) = stage.foreign_told()
    assert not event.stopped


async def test_a_lane_that_is_to_stop_is_looked_at_once_at_a_time_too() -> None:
    stage = Beside(stop=True)
    async with stage.running():
        await until(stage.whole)
        stage.slow.most_out = 0
        stage.slow.open.clear()
        for _ in range(GAPS):
            await stage.gap()
        first = stage.targets[0].headers(0)
        stage.slow.open.set()
        await until(stage.stopped)
        await turns()
        assert stage.slow.most_out == 1
    (event,) = stage.foreign_told()
    assert event.stopped
    assert event.first == next(one.base_offset for one in first if one.producer_id < 0)


async def test_what_gathers_behind_markers_of_ours_is_looked_at_next() -> None:
    stage = Beside(stop=True)
    async with stage.running():
        await until(stage.whole)
        stage.slow.open.clear()
        await stage.gap(foreign=False)
        await stage.gap(foreign=False)
        await stage.gap()
        (foreign,) = [one for one in stage.targets[0].headers(0) if one.producer_id < 0]
        stage.slow.open.set()
        await until(stage.stopped)
    (event,) = stage.foreign_told()
    assert (event.first, event.last) == (foreign.base_offset, foreign.next_offset - 1)


async def test_the_next_event_says_how_many_gaps_there_were_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.flow.ownership.gap_inspector.QUIET_S", 0.0)
    stage = Beside(stop=False)
    async with stage.running():
        await until(stage.whole)
        await stage.gap()
        await until(stage.foreign_told)
        stage.slow.open.clear()
        reads = stage.slow.reads
        await stage.gap()
        await until(lambda: stage.slow.reads > reads)
        for _ in range(3):
            await stage.gap()
        stage.slow.open.set()
        await until(lambda: len(stage.foreign_told()) == 3)
    told = stage.foreign_told()
    assert [one.gaps for one in told] == [1, 1, 3]
    assert [one.last < other.first for one, other in pairwise(told)] == [True, True]
    assert "3 such ranges since the last event" in told[2].text()


async def test_a_whole_range_of_another_writer_is_named_from_its_first_offset_to_its_last() -> None:
    stage = Beside(stop=True)
    async with stage.running():
        await until(stage.whole)
        for count in (3, 1, 2):
            stage.targets[0].foreign(count)
        await stage.gap()
        await until(stage.stopped)
    (event,) = stage.foreign_told()
    foreign = [one for one in stage.targets[0].headers(0) if one.producer_id < 0]
    assert (event.first, event.last) == (foreign[0].base_offset, foreign[-1].next_offset - 1)


async def test_a_look_whose_connection_is_lost_is_made_again() -> None:
    stage = Beside(stop=True)
    async with stage.running():
        await until(stage.whole)
        stage.slow.refusing = [ConnectionLost("gone")]
        await stage.gap()
        await until(stage.stopped)
    assert len(stage.foreign_told()) == 1


async def test_a_look_that_is_refused_stops_the_lane_and_says_why() -> None:
    stage = Beside(stop=False)
    async with stage.running():
        await until(stage.whole)
        stage.slow.refusing = [KafkaRefusal("reading", 42, "InvalidRequest", "")]
        await stage.gap()
        await until(stage.stopped)
    assert "InvalidRequest" in stage.told(LaneRefused)[0].text()


@pytest.mark.parametrize("lost", [True, False], ids=["connection lost", "answered"])
async def test_a_look_on_behalf_of_a_former_owner_says_nothing(lost: bool) -> None:
    """The next owner has read the log behind its barrier itself."""
    stage = Beside(stop=True)
    async with stage.running():
        await until(stage.whole)
        stage.slow.open.clear()
        reads = stage.slow.reads
        stage.copier._failures.perform(stage.driver(), Inspect(0, 0))
        await until(lambda: stage.slow.reads > reads)
        stage.driver().ownership.producer = None
        if lost:
            stage.slow.refusing = [ConnectionLost("gone")]
        stage.slow.open.set()
        await turns()
        assert stage.slow.reads == reads + 1
        assert not stage.stopped()
    assert stage.foreign_told() == []


@pytest.mark.parametrize("part", [False, True], ids=["all lost", "a part lost"])
async def test_a_look_at_what_the_target_has_lost_ends(part: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lane itself finds that out, and is acquired anew; what is left of another writer's is still told."""
    monkeypatch.setattr("engine.flow.ownership.gap_inspector._END_WAIT_S", 0.001)
    stage = Beside(stop=False)
    async with stage.running():
        await until(stage.whole)
        end = stage.targets[0].end
        if part:
            stage.targets[0].foreign(1)
        stage.slow.reads = 0
        inspector = stage.copier._failures._gaps
        inspector.found(stage.driver(), end if part else end + 3, end + 1_000_000)
        await until(lambda: stage.foreign_told() if part else not inspector._lanes)
        assert stage.slow.reads == part
        assert stage.state() is State.COPYING
    assert [(one.first, one.last) for one in stage.foreign_told()] == ([(end, end)] if part else [])


async def test_a_look_does_not_believe_an_old_end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader of the past is asked, and then the one that has the records."""
    monkeypatch.setattr("engine.flow.ownership.gap_inspector._END_WAIT_S", 0.001)
    stage = Beside(stop=False)
    async with stage.running():
        await until(stage.whole)
        offsets, lies, past = stage.b.offsets, [3], stage.targets[0].end

        async def old_offsets(partitions: Sequence[TopicPartition], at: int) -> dict[TopicPartition, int]:
            found = await offsets(partitions, at)
            if at == LATEST and TopicPartition("A.t", 0) in found and lies[0]:
                lies[0] -= 1
                found[TopicPartition("A.t", 0)] = past
            return found

        setattr(stage.b, "offsets", old_offsets)  # noqa: B010
        await stage.gap()
        await until(stage.foreign_told)
        assert lies == [0]
