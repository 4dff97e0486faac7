"""Both sides of a flow surveyed, from what a copier left on clusters in memory."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.core.offset_map.map_runs import MapBlock, MapRun
from engine.core.position.position_keys import PositionKeys
from engine.core.refused.entries import entry_of
from engine.flow.ports.ports import Cluster, Leader
from engine.flow.refused.quarantine_reader import QuarantineReader
from engine.flow.surveys import separation_survey
from engine.flow.surveys.dr_preview import losses_of
from engine.flow.surveys.separation_survey import BY_MM2, NOT_COPIED, SeparationSurvey, SurveyedPartition
from engine.flow.topic_logs.last_known import KnownLane, last_known
from engine.flow.topic_logs.map_reader import MapOptions, MapReader
from engine.wire.codecs import NONE
from engine.wire.records import encode_batch
from policies.dr.failback import FailbackChoice, FailbackRefusal, plan_failback
from policies.dr.group_places import FailbackSide, GroupProgress, group_place
from policies.dr.separation import LogPart, TopicTraits
from policies.model import LaneName, TopicPartition
from policies.naming import DefaultNaming
from policies.selection import TopicSelection
from tests.fakes.cluster import FakeCluster
from tests.fakes.source_log import LEADER_EPOCH
from tests.unit.engine.flow.refused.test_replay import Held
from tests.unit.engine.flow.stage import FLOW, POSITIONS, Stage, lane_name, until

HERE, THERE = lane_name(0)
TOPICS = {"t": TopicTraits()}


async def copied(partitions: int = 1, records: int = 5) -> Stage:
    """Copy some records of each partition, and stop."""
    stage = Stage(partitions)
    stage.b.all_answer = True
    for log in stage.sources:
        log.data(records)
    await copy_on(stage)
    return stage


async def copy_on(stage: Stage) -> None:
    stage.copier = stage.new_copier()
    stage.assign()
    async with stage.running():
        await until(lambda: all(stage.whole(one) and stage.written_down(one) for one in range(len(stage.sources))))


async def positions(stage: Stage) -> dict[TopicPartition, KnownLane]:
    found = await last_known(stage.b, POSITIONS, 1, PositionKeys("A"), TopicSelection(FLOW, DefaultNaming()))
    return {one.lane: one for one in found.lanes}


async def surveyed(
    stage: Stage,
    *lanes: LaneName,
    known: dict[TopicPartition, KnownLane] | None = None,
    topics: dict[str, TopicTraits] | None = None,
) -> list[SurveyedPartition]:
    options = MapOptions(positions_topic=POSITIONS, position_keys=PositionKeys("A"), positions_partitions=1)
    survey = SeparationSurvey(stage.a, stage.b, MapReader(options, stage.b), QuarantineReader(stage.b, "A"))
    found = await positions(stage) if known is None else known
    return await survey.look(lanes or [lane_name(0)], found, topics or TOPICS)


async def test_two_sides_that_hold_the_same_have_nothing_alone() -> None:
    (one,) = await surveyed(await copied())
    found = one.separation
    assert (found.unknown, found.diverged, found.new, found.apart_ms, one.is_counted) == ("", 0, 0, 0, True)
    assert (found.source_next, found.target_next, found.epoch_end, found.oldest_kept) == (5, 5, 5, 0)
    assert one.as_of_ms > 0


async def test_what_each_side_has_alone_is_counted() -> None:
    stage = await copied()
    stage.sources[0].data(3)
    stage.targets[0].foreign(2)
    (one,) = await surveyed(stage)
    found = one.separation
    assert (found.diverged, found.new, found.split, found.is_source_short) == (3, 2, 5, False)
    assert one.diverged is not None
    assert (one.diverged.records, one.new.records) == (3, 2)
    assert one.diverged.bytes > 60
    assert found.apart_ms >= 0


async def test_markers_behind_the_copy_are_no_new_records() -> None:
    stage = await copied()
    stage.take_away()
    (one,) = await surveyed(stage)
    assert (one.separation.target.end, one.separation.new, one.separation.apart_ms) == (6, 0, 0)


async def test_records_of_raymirror_that_no_map_counts_yet_are_not_anothers() -> None:
    stage = await copied()
    known = await positions(stage)
    stage.sources[0].data(3)
    await copy_on(stage)
    older = Stage()
    older.a, older.b = stage.a, stage.b
    kept = stage.positions.batches
    stage.positions.batches = [one for one in kept if one.header.base_offset < 2]  # the last position is not read
    (one,) = await surveyed(older, known=known)
    stage.positions.batches = kept
    assert (one.separation.target_next, one.separation.target.end, one.separation.new) == (5, 8, 0)


async def test_replayed_records_are_nothing_new_because_the_source_has_them() -> None:
    """A failback that keeps what is new would append them to the source a second time."""
    stage = Held()
    stage.b.all_answer = True
    async with stage.running():
        states = await stage.mended()
        for state in states:
            await stage.replayed(state)
        (one,) = await surveyed(stage)
        assert (one.separation.new, one.separation.replayed) == (0, len(states))
        stage.targets[0].foreign(2)
        (one,) = await surveyed(stage)
        assert one.separation.new == 2


async def test_records_that_were_left_out_are_lost_by_a_source_topic_that_is_made_anew() -> None:
    """And one that was dropped, or that the target took after all, is not."""
    stage = Held()
    stage.b.all_answer = True
    async with stage.running():
        states = await stage.held()
        void = msgspec.structs.replace(states[0].record, offset=2)
        stage.entries.append(bytes(encode_batch([entry_of("A", void)], NONE)))
        (one,) = await surveyed(stage)
        assert (one.separation.left_out, one.separation.replayed) == (2, 0)
        await stage.replay.drop(states[0])
        (one,) = await surveyed(stage)
        assert one.separation.left_out == 1
        stage.sources[0].data(1)  # D, so that a failback that does not keep it makes the topic anew
        found = msgspec.structs.replace(one.separation, diverged=1)
        names = [[why.name for why in plan_failback(found, choice).refused] for choice in FailbackChoice]
        assert names == [[], [FailbackRefusal.LEFT_OUT], [FailbackRefusal.LEFT_OUT]]


async def test_the_maps_are_read_first_and_the_source_last() -> None:
    """Else a copy that grows meanwhile would seem to lack records, or the source to have fewer than it has."""
    stage = await copied()
    known, asked = await positions(stage), list[str]()

    def note(_asked: str, partitions: object) -> None:
        for name in ("mm2-offsets", "A.t", "'t'"):
            if name in str(partitions) and name not in asked:
                asked.append(name)

    stage.a.fail = stage.b.fail = note
    await surveyed(stage, known=known)
    assert asked == ["mm2-offsets", "A.t", "'t'"]


async def test_a_source_that_lost_records_and_grew_again_is_seen_by_its_epochs() -> None:
    stage = await copied()
    stage.sources[0].truncate(0)
    stage.sources[0].data(7)
    (one,) = await surveyed(stage)
    found = one.separation
    assert (found.source.end, found.epoch_end, found.split, found.is_source_short) == (7, 0, 0, True)
    assert found.diverged == 7
    refused = [bool(plan_failback(found, choice).refused) for choice in FailbackChoice]
    assert refused == [True, True, False]


@pytest.mark.parametrize("written", [4, 9])
async def test_a_source_led_by_a_replica_with_an_older_epoch_has_parted_before_the_end_of_that_epoch(
    written: int,
) -> None:
    """The new leader had records of epoch 1 that the leader of epoch 2, which was copied, never had (KIP-101).

    copied    epoch 0: 0..2, epoch 2: 2..7      the answer for epoch 2 is (epoch 1, 6): the logs part at 2
    source    epoch 0: 0..2, epoch 1: 2..6, epoch 3: 6..7
    """
    stage = await copied(records=2)
    log = stage.sources[0]
    log.epochs.append((LEADER_EPOCH + 2, 2))
    log.data(5)
    await copy_on(stage)
    log.truncate(2)
    log.epochs = [(LEADER_EPOCH, 0), (LEADER_EPOCH + 1, 2)]
    log.data(written)
    log.epochs.append((LEADER_EPOCH + 3, log.end))
    log.data(1)
    (one,) = await surveyed(stage)
    found = one.separation
    assert (found.split, found.diverged, found.is_source_short) == (0, written + 3, True)
    refused = [bool(plan_failback(found, choice).refused) for choice in FailbackChoice]
    assert refused == [True, True, False]


async def test_a_source_topic_that_was_created_again_shares_nothing() -> None:
    stage = await copied()
    stage.a.leader[HERE] = Leader(1, LEADER_EPOCH, "another id")
    (one,) = await surveyed(stage)
    assert (one.separation.epoch_end, one.separation.diverged, one.separation.is_source_short) == (0, 5, True)


async def test_a_copy_that_was_created_again_holds_nothing_of_what_was_copied() -> None:
    """Applications have written to it since, so its end says nothing."""
    stage = await copied()
    leader = stage.b.leader[THERE]
    stage.b.leader[THERE] = Leader(leader.node, leader.epoch, "another id")
    stage.targets[0].foreign(9)
    (one,) = await surveyed(stage)
    assert one.separation.unknown == "its copy A.t-0 was deleted and created again: it lacks what was copied"
    assert losses_of([one], 0)[0].unknown == 1
    assert all(plan_failback(one.separation, choice).refused for choice in FailbackChoice)


async def test_an_epoch_says_nothing_of_what_was_copied_after_its_position() -> None:
    stage = await copied()
    stage.sources[0].lead_anew()
    stage.sources[0].data(2)
    await copy_on(stage)
    known = await positions(stage)
    older = msgspec.structs.replace(known[HERE], source_epoch=LEADER_EPOCH, epoch_next=5)
    (one,) = await surveyed(stage, known={HERE: older})
    assert (one.separation.epoch_end, one.separation.is_epoch_unknown) == (-1, True)
    (one,) = await surveyed(stage)
    assert (one.separation.epoch_end, one.separation.is_epoch_unknown) == (7, False)


async def test_a_part_ends_with_its_last_record_and_not_with_the_marker_behind_it() -> None:
    """Consumers that commit the offset after a record stay before the marker, and have read everything."""
    stage = await copied()
    stage.sources[0].data(3)
    stage.sources[0].aborted_data(2, 7)
    stage.targets[0].foreign(2)
    stage.take_away()  # its barrier is a marker
    (one,) = await surveyed(stage)
    found = one.separation
    assert (found.source.end, found.diverged_end, found.size(LogPart.DIVERGED)) == (11, 8, 3)
    assert (found.target.end, found.new_end, found.size(LogPart.NEW)) == (8, 7, 2)
    progress = GroupProgress(source=8, target=7, mapped=5)
    for side in FailbackSide:
        place = group_place(found, plan_failback(found, FailbackChoice.KEEP), progress, side)
        assert (place.part, place.repeats, place.is_equal) == (LogPart.END, 0, True)


async def test_what_was_never_copied_diverges_whole() -> None:
    stage = Stage()
    stage.sources[0].data(4)
    (one,) = await surveyed(stage)
    assert (one.separation.unknown, one.separation.diverged) == (NOT_COPIED, 4)


async def test_a_source_whose_cleaner_has_been_in_what_was_never_copied_may_have_deleted_more() -> None:
    stage = await copied()
    stage.sources[0].end += 2  # a record and its tombstone were here
    old = msgspec.structs.replace((await positions(stage))[HERE], at_ms=1)
    for topic, erased in ((TopicTraits(), False), (TopicTraits(is_compacted=True), True)):
        (one,) = await surveyed(stage, known={HERE: old}, topics={"t": topic})
        assert (one.separation.diverged, one.separation.erased) == (0, erased)
        assert losses_of([one], 0)[0].unknown == erased
    (one,) = await surveyed(stage, topics={"t": TopicTraits(is_compacted=True)})
    assert not one.separation.erased, "its tombstones are there still"


async def test_what_mm2_copied_has_no_end_on_the_target() -> None:
    stage = await copied()
    mm2 = KnownLane(lane=HERE, target=THERE, source_next=3, at_ms=1, ours=False)
    (one,) = await surveyed(stage, known={HERE: mm2})
    assert (one.separation.unknown, one.separation.diverged) == (BY_MM2, 2)


async def test_a_partition_that_cannot_be_read_hides_no_other() -> None:
    stage = await copied(4)
    known = await positions(stage)
    unread = msgspec.structs.replace(known[HERE], source_next=-1, ours=False, why="it lost records")
    known[TopicPartition("t", 3)] = unread
    del stage.a.leader[HERE]
    stage.a.leader[TopicPartition("t", 1)] = Leader(-1, 0, "id-t")

    def fail(asked: str, partitions: object) -> None:
        if asked == "read content" and partitions == [TopicPartition("A.t", 2)]:
            raise ConnectionLost("A.t-2: gone")

    stage.b.fail = fail
    stage.targets[2].foreign(1)
    del stage.b.leader[TopicPartition("A.t", 3)]
    found = await surveyed(stage, *map(lane_name, range(4)), known=known)
    assert [one.separation.unknown for one in found] == [
        "the leader of t-0 on the source does not report its log",
        "the leader of t-1 on the source does not report its log",
        "connection lost: A.t-2: gone",
        "it lost records",
    ]
    assert [one.diverged is None for one in found] == [True, True, False, True]
    known[TopicPartition("t", 3)] = msgspec.structs.replace(known[HERE], lane=TopicPartition("t", 3))
    (one,) = await surveyed(stage, lane_name(3), known=known)
    assert one.separation.unknown == "the leader of A.t-3 on the target does not report its log"


@pytest.mark.parametrize(("times", "is_known"), [(4, True), (5, False)])
async def test_a_leader_that_has_just_moved_is_asked_again(times: int, is_known: bool) -> None:
    stage = await copied(2)
    known, asked = await positions(stage), list[TopicPartition]()

    def fail(what: str, partitions: Sequence[TopicPartition]) -> None:
        if what == "stable ends" and TopicPartition("A.t", 1) in partitions and len(asked) < times:
            if len(partitions) == 1:
                asked.extend(partitions)
            raise KafkaRefusal("ListOffsets", 6, "NotLeaderOrFollower", "")

    stage.b.fail = fail
    found = await surveyed(stage, *map(lane_name, range(2)), known=known)
    assert [not one.separation.unknown for one in found] == [True, is_known]
    assert len(asked) == times


@pytest.mark.parametrize(("count", "looks"), [(5000, 2), (50, 1)])
async def test_many_partitions_may_take_long_and_few_that_do_have_a_broker_that_is_away(
    monkeypatch: pytest.MonkeyPatch, count: int, looks: int
) -> None:
    asked: list[int] = []

    async def slowly(_cluster: Cluster, partitions: Sequence[TopicPartition]) -> Any:
        asked.append(len(partitions))
        await asyncio.sleep(5.0 if len(asked) == 1 else 0.1)
        known = dict.fromkeys(partitions[1:] if len(asked) == 1 else partitions, 0)
        return separation_survey._Side(led={}, starts=known, stable=known, ends=known)

    monkeypatch.setattr(separation_survey, "_asked", slowly)
    await separation_survey._side(FakeCluster("a"), [TopicPartition("t", number) for number in range(count)])
    assert asked == [count, 1][:looks]


async def test_what_is_not_known_of_a_topic_is_not_known_of_its_partitions() -> None:
    (one,) = await surveyed(await copied(), topics={"t": TopicTraits(unknown="configs: denied")})
    assert one.separation.unknown == "configs: denied"


async def test_an_open_transaction_is_seen_and_its_records_do_not_count() -> None:
    stage = await copied()
    stage.sources[0].open_data(3, 9)
    (one,) = await surveyed(stage)
    found = one.separation
    assert (found.diverged, found.source.is_open, found.target.is_open) == (0, True, False)


async def test_a_transaction_that_the_copy_has_torn_is_counted() -> None:
    stage = await copied()
    known = await positions(stage)
    torn = msgspec.structs.replace(known[HERE], source_next=6, epoch_next=6)
    stage.sources[0].data(1, producer_id=9)
    stage.sources[0].data(1, producer_id=9)
    stage.sources[0].marker(9, 1)
    (one,) = await surveyed(stage, known={HERE: torn})
    assert one.diverged is not None
    assert (one.diverged.records, one.diverged.torn) == (1, 1)


async def test_what_the_targets_retention_has_left_is_named_by_its_source_offset() -> None:
    stage = await copied()
    stage.sources[0].vanish(2)
    stage.sources[0].data(3)
    await copy_on(stage)
    stage.targets[0].retain_from(5)
    (one,) = await surveyed(stage)
    assert one.separation.oldest_kept == 7


async def test_a_block_of_the_map_that_is_not_in_memory_is_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = await copied()
    options = MapOptions(positions_topic=POSITIONS, position_keys=PositionKeys("A"), positions_partitions=1)
    maps = MapReader(options, stage.b)
    await maps.follow()
    known = maps.map_of(HERE)
    assert known is not None
    assert known.head is not None
    blocks = MapBlock(0, known.head.generation, (MapRun(0, 0, 5),))
    known.add_block(blocks, 0)
    known.follow(msgspec.structs.replace(known.head, blocks=1, source_next=6, target_next=6, runs=()))
    known.thin(0)
    recalled: list[int] = []

    async def recall(_lane: TopicPartition, numbers: list[int]) -> None:
        recalled.extend(numbers)
        known.load(blocks)

    monkeypatch.setattr(maps, "recall", recall)
    survey = SeparationSurvey(stage.a, stage.b, maps, QuarantineReader(stage.b, "A"))
    (one,) = await survey.look([lane_name(0)], await positions(stage), TOPICS)
    assert (one.separation.oldest_kept, recalled) == (0, [0])
