"""What became of refused records: told by their entries, their marks and the offset map together."""

from typing import Any

import msgspec
import pytest

from engine.core.mm2.mm2_records import OffsetSync, encode_offset_sync
from engine.core.offset_map.map_blocks import encode_tail
from engine.core.offset_map.map_runs import MapHead, MapStart
from engine.core.refused.entries import RefusedRecord, RefusedState, contents_record, entry_of, placed_at
from engine.flow.refused.replay import Replay, ReplayFailed
from engine.services.quarantine import (
    LeftOutRow,
    RefusedRecords,
    RefusedRow,
    RefusedStanding,
    ReplayResult,
    left_out_rows,
)
from engine.wire.codecs import NONE
from engine.wire.record import Record
from engine.wire.records import encode_batch
from tests.unit.engine.config_files import flow
from tests.unit.engine.flow.refused.test_replay import Held
from tests.unit.engine.flow.stage import FLOW, until

S = RefusedStanding


def quarantine_over(stage: Held) -> RefusedRecords:
    given: Any = stage.b
    return RefusedRecords(flow("offset.storage.partitions = 1\n"), given)


def forge(stage: Held, state: RefusedState, **changes: Any) -> RefusedRecord:
    """Write one more entry, with other facts."""
    facts = msgspec.structs.replace(state.record, **changes)
    stage.entries.append(bytes(encode_batch([entry_of("A", facts)], NONE)))
    return facts


async def standings(found: RefusedRecords) -> dict[int, RefusedStanding]:
    return {row.name.offset: row.standing for row in await found.rows()}


async def test_each_record_is_told_by_what_became_of_it() -> None:
    stage = Held()
    async with stage.running():
        states = await stage.held()
        found = quarantine_over(stage)
        assert await standings(found) == {1: S.HELD, 3: S.HELD}
        forge(stage, states[0], offset=2, contents_at=-1)  # of an owner that died: the next one's batch was taken
        forge(stage, states[0], offset=99)
        forge(stage, states[0], offset=3, contents_at=-1)
        assert await standings(found) == {1: S.HELD, 2: S.COPIED, 3: S.SKIPPED, 99: S.PENDING}
        await found.drop(lambda row: row.name.offset == 3, lambda _row: None)
        assert (await standings(found))[3] is S.DROPPED
        other = forge(stage, states[0], offset=1, topic_id="of a topic that was deleted")
        rows = {row.name: row.standing for row in await found.rows()}
        assert rows[other.name] is S.UNSURE
        await found.close()


async def test_what_nobody_has_decided_about_is_counted_by_partition() -> None:
    stage = Held()
    async with stage.running():
        states = await stage.held()
        found = quarantine_over(stage)
        forge(stage, states[0], offset=2, contents_at=-1)  # the target took it after all
        forge(stage, states[0], offset=7, partition=4)
        assert left_out_rows(await found.rows()) == (LeftOutRow("t", 0, 2), LeftOutRow("t", 4, 1))
        await found.drop(lambda row: row.name.offset == 3, lambda _row: None)
        rows = left_out_rows(await found.rows())
        assert [str(row) for row in rows] == [
            "t-0: the target lacks 1 record that it refused",
            "t-4: the target lacks 1 record that it refused",
        ]
        await found.close()


async def test_a_record_that_only_an_offset_sync_has_passed_is_pending() -> None:
    """The next owner begins at the stored position, and would send the record again, behind its replay."""
    stage = Held()
    syncs = stage.b.target("mm2-offset-syncs.A.internal")
    async with stage.running():
        states = await stage.held()
        forge(stage, states[0], offset=5)
        head = stage.stored().map_head
        ahead = MapHead(head.generation, head.blocks, 6, head.target_next, head.runs)
        sync = Record(0, 2**41, *encode_offset_sync(OffsetSync("t", 0, 4, 2, encode_tail(ahead))))
        syncs.append(bytes(encode_batch([sync], NONE)))
        given: Any = stage.b
        near = flow("offset.storage.partitions = 1\nA->B.offset-syncs.topic.location = target\n")
        assert near.syncs.cluster == "B"
        assert (await standings(RefusedRecords(near, given)))[5] is S.PENDING


async def test_below_what_retention_left_of_the_map_nobody_knows_whether_a_record_was_copied() -> None:
    """An entry may be void, and its copy deleted: a replay would bring a record back that consumers have read."""
    stage = Held()
    async with stage.running():
        await stage.held()
        lane, positions = stage.driver().lane, stage.driver().positions
        assert lane.map is not None
        lane.map.start = MapStart(2, stage.targets[0].places()[2], first=True)
        lane.position_version += 1
        positions.flush_asked = True
        await until(lambda: positions.settled)
        assert await standings(quarantine_over(stage)) == {1: S.UNSURE, 3: S.HELD}


async def test_of_a_lane_without_a_map_nothing_is_sure() -> None:
    stage = Held()
    async with stage.running():
        states = await stage.held()
        facts = forge(stage, states[0], topic="elsewhere")
        rows = {row.name: row.standing for row in await quarantine_over(stage).rows()}
        assert rows[facts.name] is S.UNSURE


async def test_a_replay_takes_held_records_in_their_order() -> None:
    stage = Held()
    async with stage.running():
        await stage.held()
        stage.mend()
        found, told = quarantine_over(stage), list[ReplayResult]()
        results = await found.replay(lambda _row: True, told.append)
        assert [(one.name.offset, one.why_not) for one in results] == [(1, ""), (3, "")]
        assert told == results
        places = stage.targets[0].places()
        assert [one.target_offset for one in results] == [places[1], places[3]]
        assert await standings(found) == {1: S.REPLAYED, 3: S.REPLAYED}
        assert await found.replay(lambda _row: True, told.append) == []


async def test_behind_a_record_that_is_still_refused_its_partition_waits() -> None:
    stage = Held()
    async with stage.running():
        await stage.held()
        found = quarantine_over(stage)
        results = await found.replay(lambda _row: True, lambda _one: None)
        assert [one.name.offset for one in results] == [1, 3]
        assert "the target answers" in results[0].why_not
        assert results[1].why_not == "t-0@1 before it was not replayed"
        stage.targets[0].refuses = lambda key: key == b"1"
        (only,) = await found.replay(lambda row: row.name.offset == 3, lambda _one: None)
        assert only.target_offset >= 0


async def test_a_drop_fences_a_replay_that_runs_and_leaves_what_that_has_replayed() -> None:
    stage = Held()
    async with stage.running():
        states = await stage.mended()
        await stage.replayed(states[0])
        found, dropped = quarantine_over(stage), list[RefusedRow]()
        left = await found.drop(lambda _row: True, dropped.append)
        assert ([one.name.offset for one in dropped], [one.name.offset for one in left]) == ([3], [1])
        with pytest.raises(ReplayFailed, match="t-0@3"):
            await stage.replay.replay(states[1], Record(0, 1, b"3", b"3"))
        assert await standings(found) == {1: S.REPLAYED, 3: S.DROPPED}
        assert stage.keys() == [b"0", b"2", b"4", b"1"]


async def test_a_replay_that_begins_during_a_drop_stops_it() -> None:
    stage = Held()
    async with stage.running():
        await stage.held()
        found = quarantine_over(stage)

        def replay_begins(_row: RefusedRow) -> None:
            name = stage.replay.transactional_id
            producer_id, epoch = stage.b.transactional[name]
            stage.b.transactional[name] = producer_id, epoch + 1

        with pytest.raises(ReplayFailed, match="t-0@3"):
            await found.drop(lambda _row: True, replay_begins)
        assert await standings(found) == {1: S.DROPPED, 3: S.HELD}


async def test_contents_that_were_dropped_meanwhile_are_not_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Held()
    async with stage.running():
        await stage.held()
        stage.mend()
        found = quarantine_over(stage)

        async def nothing(_row: RefusedRow) -> None:
            return None

        monkeypatch.setattr(found, "contents", nothing)
        results = await found.replay(lambda row: row.name.offset == 1, lambda _one: None)
        assert [one.why_not for one in results] == ["its entry was replaced meanwhile"]


async def test_records_that_are_not_sure_are_replayed_only_on_request() -> None:
    stage = Held()
    async with stage.running():
        states = await stage.held()
        stage.mend()
        facts = msgspec.structs.replace(states[0].record, topic_id="another", offset=7)
        record = await stage.reader.contents(states[0])
        assert record is not None
        at = stage.held_records.end
        stage.held_records.append(bytes(encode_batch([contents_record("A", facts, record)], NONE)))
        stage.entries.append(bytes(encode_batch([entry_of("A", placed_at(facts, at))], NONE)))
        found = quarantine_over(stage)
        assert await found.replay(lambda row: row.name.offset == 7, lambda _one: None) == []
        (one,) = await found.replay(lambda row: row.name.offset == 7, lambda _one: None, unsure=True)
        assert one.why_not == ""


async def test_a_replay_that_another_one_fences_ends_with_the_reason() -> None:
    stage = Held()
    async with stage.running():
        await stage.held()
        stage.mend()
        found = quarantine_over(stage)
        rows = await found.rows()
        first = Replay(stage.b, FLOW, lambda: 1)
        await first.begin()
        await found.replay(lambda row: row.name.offset == 1, lambda _one: None)
        record = await found.contents(rows[1])
        assert record is not None
        with pytest.raises(ReplayFailed, match="InvalidProducerEpoch"):
            await first.replay(rows[1].state, record)
        await until(lambda: len(stage.targets[0].records()) == 4)


async def test_a_replay_that_takes_its_producer_back_replays_nothing_that_another_one_has_replayed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker checks a record before it checks its producer: a fenced replay may see a refusal, not the fence."""
    stage = Held(partitions=2)
    stage.sources[1].data(3)
    stage.targets[1].refuses = lambda key: key == b"1"
    async with stage.running():
        await stage.held()
        await until(lambda: stage.written_down(1))
        stage.targets[1].refuses = lambda _key: False  # mended; partition 0 is not
        first, second = quarantine_over(stage), quarantine_over(stage)
        add, others = stage.b.add_to_transaction, list[ReplayResult]()

        async def overtaken(*given: Any) -> None:
            await add(*given)
            monkeypatch.undo()
            others.extend(await second.replay(lambda _row: True, lambda _one: None))

        monkeypatch.setattr(stage.b, "add_to_transaction", overtaken)
        results = await first.replay(lambda _row: True, lambda _one: None)
        assert [one.name.partition for one in others if not one.why_not] == [1]
        assert [one.why_not for one in results if one.name.partition == 1] == ["another command has replayed it"]
        assert stage.copied(1) == [0, 2, 1]


async def test_without_the_topic_there_is_nothing() -> None:
    stage = Held()
    stage.b.leader.pop(stage.reader.entries)
    assert await quarantine_over(stage).rows() == []
