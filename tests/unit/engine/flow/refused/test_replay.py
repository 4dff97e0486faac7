"""Refused records that are replayed, or dropped, after their lane went on without them."""

import msgspec
import pytest

from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.core.events.events import AccessDenied, ForeignWriter, LaneReleased
from engine.core.lane.states import State
from engine.core.position.target_tail import TailBatch
from engine.core.refused.entries import RefusedState, contents_record
from engine.flow.ports.ports import NO_TRANSACTIONS
from engine.flow.refused.quarantine_reader import Replayers
from engine.flow.refused.replay import Replay, ReplayFailed
from engine.wire.codecs import NONE
from engine.wire.record import Record
from engine.wire.records import encode_batch
from tests.unit.engine.flow.refused.test_leaving_out import Leaving
from tests.unit.engine.flow.stage import FLOW, lane_name, until


class Held(Leaving):
    """A stage whose lane of partition 0 has left out records 1 and 3 of five, and goes on."""

    def __init__(self, partitions: int = 1) -> None:
        super().__init__(partitions=partitions)
        self.sources[0].data(5)
        self.targets[0].refuses = lambda key: key in (b"1", b"3")
        self.assign()
        self.replay = Replay(self.b, FLOW, lambda: 5)

    async def held(self) -> list[RefusedState]:
        """Wait until the lane has gone on, and return what it has left out."""
        await until(self.written_down)
        return await self.reader.states()

    async def mended(self) -> list[RefusedState]:
        """Return what the lane has left out of a target that takes it now, with a replay that has begun."""
        states = await self.held()
        self.mend()
        await self.replay.begin()
        return states

    async def record(self, state: RefusedState) -> Record:
        found = await self.reader.contents(state)
        assert found is not None
        return found

    async def replayed(self, state: RefusedState) -> None:
        await self.replay.replay(state, await self.record(state))

    def mend(self) -> None:
        self.targets[0].refuses = lambda _key: False

    def keys(self) -> list[bytes | None]:
        return [record.key for record in self.targets[0].records()]


async def test_a_replayed_record_is_at_the_end_of_its_partition_and_marked() -> None:
    stage = Held()
    async with stage.running():
        states = await stage.mended()
        for state in states:
            await stage.replayed(state)
        assert stage.keys() == [b"0", b"2", b"4", b"1", b"3"]
        places = stage.targets[0].places()
        after = await stage.reader.states()
        assert [(one.mark.did, one.mark.target_offset) for one in after if one.mark] == [
            ("replayed", places[1]),
            ("replayed", places[3]),
        ]


async def test_a_lane_goes_on_behind_replayed_records_and_takes_nobody_for_another_writer() -> None:
    stage = Held()
    async with stage.running():
        states = await stage.mended()
        await stage.replayed(states[0])
        stage.sources[0].data(1)
        stage.a.grow()
        await until(stage.written_down)
        assert stage.state() is State.COPYING
        stage.take_away()  # a new owner reads what is behind the position, or between its records
        await stage.replayed(states[1])
        stage.sources[0].data(1)
        stage.a.grow()
        await until(stage.written_down)
        assert stage.told(ForeignWriter) == []
        assert stage.keys() == [b"0", b"2", b"4", b"1", b"5", b"3", b"6"]


async def test_another_writer_is_still_seen_beside_replays() -> None:
    stage = Held()
    async with stage.running():
        states = await stage.mended()
        await stage.replayed(states[0])
        stage.targets[0].foreign(1)
        stage.sources[0].data(1)
        stage.a.grow()
        await until(lambda: stage.told(ForeignWriter))


async def test_a_record_that_the_target_still_refuses_leaves_nothing_behind() -> None:
    stage = Held()
    async with stage.running():
        states = await stage.held()
        await stage.replay.begin()
        with pytest.raises(ReplayFailed, match="t-0@1: the target answers"):
            await stage.replayed(states[0])
        assert [one.mark for one in await stage.reader.states()] == [None, None]
        stage.mend()
        await stage.replayed(states[0])  # the failed one took a new epoch already
        assert stage.keys() == [b"0", b"2", b"4", b"1"]


async def test_a_replay_that_died_before_its_commit_is_rolled_back_by_the_next() -> None:
    stage = Held()
    async with stage.running():
        states = await stage.mended()
        record = await stage.record(states[0])

        def never(asked: str, _partitions: object) -> None:
            if asked == "commit":
                raise KafkaRefusal("the coordinator", 48, "InvalidTxnState", "")

        stage.b.fail = never
        with pytest.raises(ReplayFailed, match="nobody knows"):
            await stage.replay.replay(states[0], record)
        stage.b.fail = lambda _asked, _partitions: None
        assert (await stage.reader.states())[0].mark is None
        again = Replay(stage.b, FLOW, lambda: 6)
        await again.begin()
        await again.replay(states[0], record)
        assert stage.keys() == [b"0", b"2", b"4", b"1"]


async def test_a_lost_answer_to_the_commit_is_asked_for_again() -> None:
    stage = Held()
    async with stage.running():
        states = await stage.mended()
        lost = 1

        def once(asked: str, _partitions: object) -> None:
            nonlocal lost
            if asked == "committed" and lost:
                lost -= 1
                raise ConnectionLost("b")

        stage.b.fail = once
        await stage.replayed(states[0])
        assert lost == 0
        assert stage.keys() == [b"0", b"2", b"4", b"1"]


async def test_without_the_right_to_transactions_nothing_is_replayed() -> None:
    stage = Leaving()
    stage.b.fenced = False
    with pytest.raises(ReplayFailed, match="grant Write and Describe"):
        await Replay(stage.b, FLOW, lambda: 5).begin()
    stage.b.unfenced_by = NO_TRANSACTIONS
    with pytest.raises(ReplayFailed, match="the target has no transactions"):
        await Replay(stage.b, FLOW, lambda: 5).begin()


async def test_a_dropped_record_is_marked_and_its_contents_are_gone() -> None:
    stage = Held()
    async with stage.running():
        first, _ = await stage.held()
        await stage.replay.drop(first)
        dropped, kept = await stage.reader.states()
        assert dropped.mark is not None
        assert (dropped.mark.did, dropped.record.held) == ("dropped", False)
        assert await stage.reader.contents(dropped) is None
        assert await stage.reader.contents(kept) is not None
        assert stage.held_records.records()[-1].value is None  # compaction removes what is before


async def test_of_another_writer_the_topic_is_asked_once() -> None:
    """A replay is noted before its first record. Else a busy writer would cost a read of the topic for each batch."""
    stage = Leaving()
    reads = 0

    def count(asked: str, _partitions: object) -> None:
        nonlocal reads
        reads += asked == "read records"

    stage.b.fail = count
    replayers = Replayers(stage.b, "A")
    batches = [TailBatch(at, at + 1, 77, 0, at, 1, False) for at in range(5)]
    assert [await replayers.knows([one]) for one in batches] == [False] * 5
    assert reads == 1
    await Replay(stage.b, FLOW, lambda: 5).begin()
    ((producer_id, _),) = stage.b.transactional.values()
    assert await replayers.knows([msgspec.structs.replace(batches[0], producer_id=producer_id)])
    assert not await replayers.knows(batches)


async def test_a_cluster_without_the_topic_has_no_entries_and_nobody_replays() -> None:
    stage = Leaving()
    stage.b.leader.pop(stage.reader.marks)
    assert await stage.reader.states() == []
    assert await stage.reader.replayers() == frozenset()
    stage.targets[0].foreign(1)
    others = await Replayers(stage.b, "A").others(lane_name(0).target, ((0, 0),))
    assert others == ((0, 0),)


async def test_a_topic_that_may_not_be_seen_is_not_taken_for_none() -> None:
    """Else nothing would be left out, and a lane would stop at a replayed record as at another writer's."""
    stage = Held()
    async with stage.running():
        states = await stage.mended()
        await stage.replayed(states[0])
        seen = dict(stage.b.leader)
        for one in stage.reader.partitions:
            del stage.b.leader[one]
        stage.b.hidden[stage.reader.topic] = KafkaRefusal("topic", 29, "TopicAuthorizationFailed", "grant Describe")
        for asked in (stage.replay.reader.states, stage.replay.reader.replayers):
            with pytest.raises(KafkaRefusal, match="grant Describe"):
                await asked()
        assert await stage.reader.states() == []  # of a flow that leaves nothing out: it needs no such right
        stage.sources[0].data(1)
        stage.a.grow()
        await until(lambda: stage.told(AccessDenied))
        assert stage.told(ForeignWriter) == []
        stage.b.hidden.clear()
        stage.b.leader = seen
        await until(lambda: stage.told(LaneReleased))
        await until(stage.written_down)
        assert stage.state() is State.COPYING


async def test_contents_that_a_repeat_has_replaced_are_found_behind() -> None:
    stage = Held()
    async with stage.running():
        (first, _) = await stage.held()
        record = await stage.record(first)
        repeat = contents_record("A", first.record, record)
        stage.held_records.append(bytes(encode_batch([repeat], NONE)))
        stage.held_records.batches.pop(0)  # compaction
        assert await stage.reader.contents(first) == record
        stage.held_records.batches.clear()
        assert await stage.reader.contents(first) is None
