"""Offset syncs in parallel with the copy: true, complete at rest, on the right cluster, without delaying it."""

import asyncio

import msgspec
import pytest

from engine.base.clock import now_s
from engine.core.events.events import Mm2TopicFailed, TargetCut
from engine.core.events.recovery_events import WorksAgain
from engine.core.mm2.mm2_records import OffsetSync, decode_offset_sync
from engine.core.mm2.sync_store import SyncStore
from engine.core.offset_map.map_blocks import decode_tail
from engine.flow.ports.options import SyncOptions
from engine.flow.ports.ports import Leader
from engine.flow.replication import syncs as writer
from engine.flow.replication.copier import FlowCopier
from policies.model import TopicPartition
from policies.start import Earliest
from tests.fakes.target_log import TargetLog
from tests.unit.engine.flow.stage import TERMS, Stage, until

TOPIC = "mm2-offset-syncs.B.internal"


class SyncStage(Stage):
    """A flow that writes offset syncs, to its source where nothing else is said."""

    def __init__(self, partitions: int = 1, *, on_source: bool = True, topic: bool = True, lag_max: int = 100) -> None:
        super().__init__(partitions)
        self.options = msgspec.structs.replace(
            TERMS, syncs=SyncOptions(topic=TOPIC, on_source=on_source, lag_max=lag_max, every_s=0.02)
        )
        self.home = self.a if on_source else self.b
        self.log = self.home.target(TOPIC) if topic else TargetLog()
        self.copier = self.new_copier(self.options)

    def synced(self, partition: int = 0) -> list[OffsetSync]:
        found = [decode_offset_sync(record.key, record.value) for record in self.log.records()]
        return [sync for sync in found if (sync.topic, sync.partition) == ("t", partition)]

    def at_end(self, partition: int = 0) -> bool:
        """Whether the newest sync is the last record's."""
        pairs, syncs = self.pairs(partition), self.synced(partition)
        return bool(pairs and syncs) and (syncs[-1].source_offset, syncs[-1].target_offset) == pairs[-1]

    def pairs(self, partition: int = 0) -> list[tuple[int, int]]:
        """The offsets of every copied record, source and target."""
        return list(self.targets[partition].places().items())

    def answered(self, partition: int = 0) -> bool:
        """Whether the copier knows that everything is told."""
        driver = self.driver(partition)
        return driver.syncs is not None and driver.syncs.version == driver.lane.position_version

    def check(self, partition: int = 0) -> None:
        pairs = self.pairs(partition)
        assert {(sync.source_offset, sync.target_offset) for sync in self.synced(partition)} <= set(pairs)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_TOLD_AFTER_S", 0.1)
    monkeypatch.setattr(writer, "_REFUSED_S", 0.05)


@pytest.mark.parametrize("on_source", [True, False])
async def test_every_sync_is_true_and_the_last_one_is_told_at_rest(on_source: bool) -> None:
    stage = SyncStage(3, on_source=on_source)
    for source in stage.sources:
        source.data(5)
        source.aborted_data(2, 7)
        source.data(4, holes=frozenset({1, 3}))
    stage.assign()
    async with stage.running():
        await until(lambda: all(stage.whole(index) and stage.at_end(index) for index in range(3)))
        stage.sources[1].data(3)
        stage.a.grow()
        await until(lambda: stage.whole(1) and stage.at_end(1))
    for index in range(3):
        stage.check(index)
        assert stage.synced(index)[0].source_offset == 0


async def test_syncs_may_be_written_over_connections_of_their_own() -> None:
    stage = SyncStage()
    other = Stage(1).a
    log = other.target(TOPIC)
    stage.copier = FlowCopier(stage.options, stage.a, stage.b, lambda _topic: Earliest(), other)
    stage.sources[0].data(3)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.whole() and bool(log.records()))
    assert not stage.log.records()


async def test_the_newest_sync_of_a_lane_carries_the_end_of_its_map() -> None:
    stage = SyncStage()
    stage.sources[0].data(4, holes=frozenset({1}))
    stage.sources[0].aborted_data(2, 7)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.whole() and stage.at_end() and stage.answered())
        head = decode_tail(stage.synced()[-1].tail)
        assert head is not None
        lane = stage.driver().lane
        assert (head.source_next, head.target_next) == (lane.source_next, lane.target_next)
        assert [(run.source + at, run.target + at) for run in head.runs for at in range(run.count)] == stage.pairs()
        assert stage.synced()[0].tail == b""


async def test_a_flow_without_syncs_writes_none() -> None:
    stage = SyncStage()
    stage.copier = stage.new_copier(TERMS)
    stage.sources[0].data(3)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
    assert stage.synced() == []


async def test_a_lane_that_leaves_and_a_copier_that_ends_tell_where_they_stood() -> None:
    stage = SyncStage(2)
    stage.copier = stage.new_copier(
        msgspec.structs.replace(
            stage.options, syncs=SyncOptions(topic=TOPIC, on_source=True, lag_max=100, every_s=1000.0)
        )
    )
    for source in stage.sources:
        source.data(3)
    stage.assign(set_id="kept", only=[1])
    stage.assign(set_id="moved", only=[0])
    async with stage.running():
        await until(lambda: stage.whole(0) and stage.whole(1))
        assert stage.synced(0) == []
        await stage.copier.release("moved")
        await until(lambda: stage.at_end(0))
        await until(lambda: stage.at_end(1))
        stage.sources[1].data(2)
        stage.a.grow()
        await until(lambda: stage.whole(1))
    assert stage.at_end(1)


async def test_a_refusal_is_one_event_and_copying_goes_on() -> None:
    stage = SyncStage()
    stage.log.refuses = lambda key: True
    stage.sources[0].data(3)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.told(Mm2TopicFailed))
        stage.sources[0].data(3)
        stage.a.grow()
        await until(stage.whole)
        (event,) = stage.told(Mm2TopicFailed)
        assert isinstance(event, Mm2TopicFailed)
        assert (event.topic, event.cluster, event.severity) == (TOPIC, "A", "warning")
        assert event.text().endswith("; copying does not need that topic")
        stage.log.refuses = lambda key: False
        await until(stage.at_end)
    assert len(stage.told(Mm2TopicFailed)) == len(stage.told(WorksAgain)) == 1


@pytest.mark.parametrize("on_source", [True, False])
async def test_a_topic_that_is_not_there_is_told_after_a_while_and_found_when_it_is(on_source: bool) -> None:
    stage = SyncStage(topic=False, on_source=on_source)
    stage.sources[0].data(3)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.told(Mm2TopicFailed))
        assert stage.whole()
        assert stage.copier._syncs is not None
        assert "has no leader" in stage.copier._syncs.trouble
        stage.log = stage.home.target(TOPIC)
        await until(stage.at_end)
        await until(lambda: stage.copier._syncs is not None and not stage.copier._syncs.trouble)
    stage.check()


async def test_a_broker_that_goes_away_loses_no_sync() -> None:
    stage = SyncStage(lag_max=0)
    stage.log = stage.a.target(TOPIC, node=9)
    stage.sources[0].data(3)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.at_end() and stage.answered())
        stage.a.down.add(9)
        stage.a.lose(9)
        stage.sources[0].data(3)
        stage.a.grow()
        await until(stage.whole)
        assert not stage.at_end()
        stage.a.down.clear()
        await until(stage.at_end)
    stage.check()
    assert [sync.source_offset for sync in stage.synced()] == sorted(sync.source_offset for sync in stage.synced())


async def test_a_topic_that_was_made_anew_is_written_again() -> None:
    stage = SyncStage()
    stage.sources[0].data(3)
    stage.assign()
    async with stage.running():
        await until(stage.at_end)
        stage.log = stage.a.target(TOPIC)
        stage.a.leader[TopicPartition(TOPIC, 0)] = Leader(1, 0, "another id")
        stage.sources[0].data(3)
        stage.a.grow()
        await until(lambda: stage.whole() and stage.at_end())


async def test_what_a_target_lost_is_taken_back_before_what_was_copied_again_is_told() -> None:
    stage = SyncStage()
    stage.assign()
    async with stage.running():
        for _ in range(3):
            stage.sources[0].data(2)
            stage.a.grow()
            await until(lambda: stage.whole() and stage.at_end() and stage.answered())
        await until(stage.written_down)
        lost = stage.synced()[-1]
        stage.targets[0].truncate(3)
        stage.targets[0].producers.clear()
        stage.b.leader[TopicPartition("A.t", 0)] = Leader(1, 5, "id-A.t")
        stage.b.lose(1)
        stage.sources[0].data(2)
        stage.a.grow()
        await until(lambda: stage.told(TargetCut) and stage.whole() and stage.at_end())
    store = SyncStore()
    store.read_to_end()
    true = dict(stage.pairs())
    syncs = stage.synced()
    for sync in syncs:
        store.add(sync)
    assert true[lost.source_offset] != lost.target_offset
    behind = syncs[syncs.index(lost) + 1 :]
    assert (behind[0].source_offset, behind[0].target_offset) == (1, 2)
    assert all((sync.source_offset, sync.target_offset) in stage.pairs() for sync in behind)
    for source, target in true.items():
        answer = store.translate(TopicPartition("t", 0), source)
        assert answer is not None
        assert answer <= target


async def test_another_owner_tells_where_it_begins_and_keeps_the_readers_history() -> None:
    stage = SyncStage()
    stage.sources[0].data(4)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.whole() and stage.at_end())
    stage.copier = stage.new_copier(stage.options)
    stage.sources[0].data(3)
    stage.assign(epoch=2)
    async with stage.running():
        await until(lambda: stage.whole() and stage.at_end())
    stage.check()
    offsets = [sync.source_offset for sync in stage.synced()]
    assert offsets == sorted(offsets)
    assert 3 in offsets


async def test_nothing_is_written_through_a_shut_gate() -> None:
    stage = SyncStage()
    stage.sources[0].data(3)
    stage.assign()
    async with stage.running():
        await until(stage.at_end)
        count = len(stage.log.records())
        stage.sources[0].data(1)
        stage.a.grow()
        await until(stage.whole)
        stage.copier.hold()
        found = len(stage.log.records())
        await asyncio.sleep(0.1)
        assert len(stage.log.records()) == found >= count
        stage.copier.unhold()
        await until(stage.at_end)


async def test_a_batch_that_is_too_large_goes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_LEAST_BYTES", 32)
    stage = SyncStage(40)
    stage.log.max_bytes = 240
    for source in stage.sources:
        source.data(2)
    stage.assign()
    async with stage.running():
        await until(lambda: all(stage.at_end(index) for index in range(40)))
    assert len(stage.log.batches) > 1


async def test_a_topic_that_never_answers_holds_neither_the_copying_nor_the_end_of_the_copier(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writer, "_FLUSH_S", 0.05)
    stage = SyncStage()
    unanswered = asyncio.Event()

    async def never(_payload: object) -> None:
        await unanswered.wait()

    assert stage.copier._syncs is not None
    monkeypatch.setattr(stage.copier._syncs._writer, "send", never)
    stage.sources[0].data(3)
    stage.assign()
    began_s = now_s()
    async with stage.running():
        await until(stage.whole)
    assert now_s() - began_s < 20
    assert stage.synced() == []
