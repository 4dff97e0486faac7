"""A copier that leaves out what its target refuses: the others are copied, and an entry is durable before."""

import msgspec
import pytest

from engine.core.events.events import AccessDenied, LaneReleased, RecordRefused
from engine.core.events.refused_events import RecordsLeftOut
from engine.core.lane.pending_batch import Limits
from engine.core.lane.rebatching import rebatch_rules
from engine.core.refused.entries import quarantine_topic
from engine.flow.ports.options import FlowOptions
from engine.flow.refused.quarantine_reader import QuarantineReader
from engine.flow.replication.copier import FlowCopier
from policies.sync.topic_faults import FaultRules, TopicRule
from tests.unit.engine.flow.stage import TERMS, Stage, until

TOPIC = quarantine_topic("A")


class Leaving(Stage):
    """A stage whose copier leaves records out."""

    def __init__(
        self, choice: str = "quarantine", *, merges: bool = False, commit_s: float = 0.0, partitions: int = 1
    ) -> None:
        self.choice, self.merges, self.commit_s = choice, merges, commit_s
        super().__init__(partitions)
        self.entries, self.marks, self.held_records = (self.b.target(TOPIC, number) for number in range(3))
        self.reader = QuarantineReader(self.b, "A")

    def new_copier(self, options: FlowOptions = TERMS) -> FlowCopier:
        rules = FaultRules(refusals=(TopicRule("t", self.choice),))
        limits = Limits(rebatch=rebatch_rules()) if self.merges else options.limits
        return super().new_copier(msgspec.structs.replace(options, faults=rules, limits=limits, commit_s=self.commit_s))

    def wanted_without(self, *left_out: int) -> list[int]:
        return [offset for offset in self.sources[0].wanted() if offset not in left_out]

    async def names(self) -> list[int]:
        return [state.record.offset for state in await self.reader.states()]


@pytest.mark.parametrize("commit_s", [0.0, 0.05])
@pytest.mark.parametrize("merges", [False, True])
async def test_refused_records_of_a_batch_are_set_aside_and_the_others_are_copied(
    *, merges: bool, commit_s: float
) -> None:
    stage = Leaving(merges=merges, commit_s=commit_s)
    for _ in range(10):
        stage.sources[0].data(4)
    stage.targets[0].refuses = lambda key: int(key) % 7 == 3
    stage.assign()
    bad = [offset for offset in range(40) if offset % 7 == 3]
    async with stage.running():
        await until(stage.written_down)
        assert stage.copied() == stage.wanted_without(*bad)
        assert stage.copier.progress().left_out == len(bad)
        states = await stage.reader.states()
        assert [state.record.offset for state in states] == bad
        record = await stage.reader.contents(states[0])
        assert record is not None
        assert (record.key, record.offset) == (b"3", 3)
        assert states[0].record.topic_id == "id-t"
        assert (states[0].record.error_code, states[0].record.target_topic) == (87, "A.t")
    assert stage.told(RecordRefused) == []


@pytest.mark.parametrize("merges", [False, True])
async def test_where_no_record_is_named_halves_show_it(*, merges: bool) -> None:
    stage = Leaving(merges=merges)
    stage.sources[0].data(20)
    stage.sources[0].data(3)
    stage.targets[0].policy = lambda key: key in (b"0", b"7", b"8", b"22")
    stage.assign()
    async with stage.running():
        await until(stage.written_down)
    assert stage.copied() == stage.wanted_without(0, 7, 8, 22)
    states = await stage.reader.states()
    assert [(one.record.offset, one.record.error_code) for one in states] == [(0, 44), (7, 44), (8, 44), (22, 44)]


async def test_one_event_tells_of_many_records() -> None:
    stage = Leaving()
    stage.sources[0].data(9)
    stage.targets[0].refuses = lambda _key: True
    stage.assign()
    async with stage.running():
        await until(stage.written_down)
        stage.sources[0].data(3)
        stage.a.grow()
        await until(stage.written_down)
    (event,) = stage.told(RecordsLeftOut)
    assert isinstance(event, RecordsLeftOut)
    assert TOPIC in event.text()
    assert stage.copied() == []
    assert len(await stage.names()) == 12


async def test_a_skipped_record_leaves_an_entry_without_its_contents() -> None:
    stage = Leaving("skip")
    stage.sources[0].data(3)
    stage.targets[0].refuses = lambda key: key == b"1"
    stage.assign()
    async with stage.running():
        await until(stage.written_down)
    (state,) = await stage.reader.states()
    assert (state.record.offset, state.record.held, state.record.key_bytes) == (1, False, 1)
    assert await stage.reader.contents(state) is None
    assert stage.held_records.records() == []


async def test_a_record_that_is_too_large_is_set_aside_alone() -> None:
    stage = Leaving()
    stage.targets[0].size_of = lambda payload: 100 if b"5" in bytes(payload)[61:] else 0
    stage.targets[0].max_bytes = 10
    stage.sources[0].data(10)
    stage.assign()
    async with stage.running():
        await until(stage.written_down)
    assert stage.copied() == stage.wanted_without(5)
    assert await stage.names() == [5]


async def test_without_the_quarantine_topic_the_lane_waits() -> None:
    stage = Leaving()
    leader = stage.b.leader.pop(stage.reader.entries)
    stage.sources[0].data(5)
    stage.targets[0].refuses = lambda key: key == b"2"
    stage.assign()
    async with stage.running():
        await until(lambda: stage.told(RecordRefused))
        (event,) = stage.told(RecordRefused)
        assert f"{TOPIC} cannot be written" in event.text()
        assert stage.driver().lane.left_out == 0
        stage.b.leader[stage.reader.entries] = leader
        await until(stage.written_down)
        await until(lambda: stage.told(LaneReleased))
    assert stage.copied() == stage.wanted_without(2)


async def test_a_record_that_the_quarantine_topic_refuses_too_stops_the_lane() -> None:
    stage = Leaving()
    stage.held_records.max_bytes = 10
    stage.sources[0].data(2)
    stage.targets[0].refuses = lambda key: key == b"1"
    stage.assign()
    async with stage.running():
        await until(lambda: stage.told(RecordRefused))
        (event,) = stage.told(RecordRefused)
        assert "raise max.message.bytes of this topic" in event.text()
        assert stage.driver().lane.left_out == 0
        stage.held_records.max_bytes = 1 << 20
        await until(stage.written_down)
    assert await stage.names() == [1]


async def test_an_owner_whose_position_was_not_durable_is_followed_by_one_that_decides_again() -> None:
    """The entry is there twice, under one name."""
    stage = Leaving()
    where = stage.copier.options.positions_topic
    for partition in list(stage.b.leader):
        if partition.topic == where:
            stage.b.leader[partition] = msgspec.structs.replace(stage.b.leader[partition], node=3)
    stage.targets[0].refuses = lambda key: key == b"0"
    stage.assign()
    async with stage.running():
        await until(lambda: stage.positions.records())
        stage.b.frozen.add(3)
        stage.sources[0].data(1)
        stage.a.grow()
        await until(lambda: stage.driver().lane.left_out == 1)
        stage.take_away()
        stage.b.thaw(3)
        await until(lambda: len(stage.entries.records()) == 2)
        await until(stage.written_down)
    assert await stage.names() == [0]
    assert stage.copied() == []


async def test_a_batch_that_the_lane_drops_meanwhile_is_fetched_and_decided_again() -> None:
    stage = Leaving()
    stage.b.frozen.add(2)
    stage.b.leader[stage.reader.entries] = msgspec.structs.replace(stage.b.leader[stage.reader.entries], node=2)
    stage.sources[0].data(3)
    stage.targets[0].refuses = lambda key: key == b"1"
    stage.assign()
    async with stage.running():
        await until(lambda: any(one.node == 2 and one.held for one in stage.b.connections))
        stage.copier._failures.reacquire(stage.driver(), "meanwhile", fenced=False)
        stage.targets[0].refuses = lambda _key: False  # mended: the record is copied after all
        await until(stage.whole)
        stage.b.thaw(2)
        await until(stage.entries.records)
        await until(stage.written_down)
    assert stage.driver().lane.left_out == 0
    assert stage.copied() == [0, 1, 2]


async def test_other_refusals_stop_the_lane_as_before() -> None:
    stage = Leaving()
    stage.sources[0].data(2)
    stage.targets[0].denied = True
    stage.assign()
    async with stage.running():
        await until(lambda: stage.told(AccessDenied))
        assert stage.entries.records() == []
        stage.targets[0].denied = False
        await until(stage.whole)
