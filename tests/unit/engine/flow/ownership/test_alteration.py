"""Positions that a user has set: the next owner continues there, whatever the target holds."""

import pytest

from engine.base.errors import KafkaRefusal
from engine.core.events.events import CopiedAgain, ForeignWriter, Resumed, SourceGap
from engine.core.lane.states import State
from engine.flow.ownership import alteration
from engine.flow.ownership.alteration import AlterationOptions, alter_positions
from policies.model import TopicPartition
from tests.unit.engine.flow.stage import FLOW, POSITIONS, TERMS, Stage, stopped_by_another_writer, until

LANE = TopicPartition("t", 0)
OPTIONS = AlterationOptions(flow=FLOW, topic=POSITIONS, partitions=1, keys=TERMS.position_keys, request_timeout_s=5.0)


async def copied(records: int) -> Stage:
    """A lane that was copied, and drained."""
    stage = Stage()
    stage.sources[0].data(records)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
    return stage


async def copies_again(stage: Stage, wanted: list[int]) -> None:
    """Let another copier own the lane until the target has just these records."""
    stage.copier = stage.new_copier()
    stage.assign(epoch=2)
    async with stage.running():
        await until(lambda: stage.copied() == wanted)
        await until(stage.written_down)
    assert stage.copied() == wanted
    assert [event for kind in (ForeignWriter, CopiedAgain) for event in stage.told(kind)] == []


async def test_records_after_an_earlier_offset_are_copied_again() -> None:
    stage = await copied(5)
    assert await alter_positions(stage.b, OPTIONS, {LANE: 1}) == {}
    await copies_again(stage, [0, 1, 2, 3, 4, 2, 3, 4])
    (resumed,) = stage.told(Resumed)
    assert isinstance(resumed, Resumed)
    assert (resumed.how, resumed.source_offset) == ("altered offsets", 2)
    assert stage.stored().source_next == 5
    assert stage.stored().map_source == 2, "the map begins there: below it nothing is translated twice"


async def test_offset_zero_is_the_first_record_as_copied() -> None:
    stage = await copied(3)
    await alter_positions(stage.b, OPTIONS, {LANE: 0})
    await copies_again(stage, [0, 1, 2, 1, 2])


async def test_without_an_offset_a_lane_begins_as_a_new_one() -> None:
    stage = await copied(3)
    await alter_positions(stage.b, OPTIONS, {LANE: None})
    await copies_again(stage, [0, 1, 2, 0, 1, 2])


async def test_records_before_a_later_offset_are_skipped() -> None:
    stage = await copied(2)
    stage.sources[0].data(4)
    await alter_positions(stage.b, OPTIONS, {LANE: 3})
    await copies_again(stage, [0, 1, 4, 5])


async def test_what_another_writer_has_appended_since_a_position_was_set_stops_the_lane() -> None:
    stage = await copied(3)
    ends = {LANE: stage.targets[0].end}
    assert await alter_positions(stage.b, OPTIONS, {LANE: 1}, ends=ends) == {}
    first, last = stage.targets[0].foreign(2)
    event = await stopped_by_another_writer(stage)
    assert (event.first, event.last, event.stopped) == (first, last, True)


async def test_markers_since_a_position_was_set_are_no_other_writer() -> None:
    stage = await copied(3)
    ends = {LANE: stage.targets[0].end}
    assert await alter_positions(stage.b, OPTIONS, {LANE: 1}, ends=ends) == {}
    stage.targets[0].marker(77, 0)
    await copies_again(stage, [0, 1, 2, 2])


async def test_a_position_counts_once() -> None:
    stage = await copied(2)
    await alter_positions(stage.b, OPTIONS, {LANE: 0})
    await copies_again(stage, [0, 1, 1])
    stage.copier = stage.new_copier()
    stage.sources[0].data(1)
    stage.assign(epoch=3)
    async with stage.running():
        await until(lambda: stage.copied() == [0, 1, 1, 2])


async def test_an_offset_beyond_the_source_is_judged_as_lost_records() -> None:
    stage = await copied(2)
    await alter_positions(stage.b, OPTIONS, {LANE: 9})
    stage.copier = stage.new_copier()
    stage.assign(epoch=2)
    async with stage.running():
        await until(lambda: stage.state() is State.FAILED)
    assert len(stage.told(SourceGap)) == 1


async def test_whoever_owned_the_lane_before_is_fenced() -> None:
    stage = await copied(2)
    before = stage.b.transactional[TERMS.transactional_id(*LANE)]
    await alter_positions(stage.b, OPTIONS, {LANE: 0})
    assert stage.b.transactional[TERMS.transactional_id(*LANE)] > before


async def test_a_lane_that_fails_is_named_and_the_others_are_altered(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(partitions=2)
    refused = TERMS.transactional_id("t", 1)
    acquire = stage.b.acquire

    async def refuse(name: str, partitions: list[TopicPartition]) -> object:
        if name == refused:
            raise KafkaRefusal("the transactional id", 53, "denied", "grant Write")
        return await acquire(name, partitions)

    monkeypatch.setattr(stage.b, "acquire", refuse)
    wanted = {TopicPartition("t", 0): 4, TopicPartition("t", 1): 4}
    assert list(await alter_positions(stage.b, OPTIONS, wanted)) == ["t-1"]
    assert len(stage.positions.records()) == 1


async def test_a_broker_that_does_not_answer_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = await copied(1)
    monkeypatch.setattr(alteration, "WITHIN_S", 0.0)
    assert "no answer within 0 s" in (await alter_positions(stage.b, OPTIONS, {LANE: 0}))[str(LANE)]
