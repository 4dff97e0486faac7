"""What a start would find in each lane, without starting: compared with the real start."""

import msgspec
import pytest

from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.core.events.events import Resumed
from engine.core.position.position import altered_value
from engine.core.position.position_keys import PositionKeys
from engine.flow.ownership.starts import StartResolver
from engine.flow.ownership.stored_positions import stored_positions
from engine.flow.surveys.takeover_survey import LaneSurvey, TakeoverSurvey
from engine.wire.record import Record
from engine.wire.records import encode_batch
from policies.model import TopicPartition
from policies.start import Earliest
from tests.unit.engine.flow.stage import FLOW, POSITIONS, Stage, lane_name, until


def mm2_position(stage: Stage, offset: int) -> None:
    key = PositionKeys("A").encode(TopicPartition("t", 0))
    stage.positions.append(bytes(encode_batch([Record(0, 0, key, b'{"offset":%d}' % offset, ())], 0)))


def mm2_copies(stage: Stage, first: int, end: int) -> None:
    """Append some source records to the target one by one, as MM2's small batches do."""
    for batch in stage.sources[0].read(committed=True):
        for record in batch:
            if first <= record.offset < end:
                stage.targets[0].append(bytes(encode_batch([record], 0)))


async def survey(stage: Stage, lanes: int = 1) -> list[LaneSurvey]:
    starts = StartResolver(stage.a, lambda _topic: Earliest())
    look = TakeoverSurvey(stage.a, stage.b, starts, read_committed=False)
    stored = await stored_positions(stage.b, POSITIONS, PositionKeys(FLOW.source))
    return await look.survey([lane_name(one) for one in range(lanes)], stored.lanes)


async def ours_begins(stage: Stage) -> Resumed:
    stage.copier = stage.new_copier()
    stage.assign(epoch=9)
    async with stage.running():
        await until(lambda: stage.told(Resumed))
    resumed = stage.told(Resumed)[-1]
    assert isinstance(resumed, Resumed)
    return resumed


async def test_what_mm2_copied_behind_its_position_is_counted_and_left_alone() -> None:
    stage = Stage()
    stage.sources[0].data(60)
    mm2_copies(stage, 0, 40)
    mm2_position(stage, 11)
    before = stage.targets[0].end, len(stage.positions.records())
    (found,) = await survey(stage)
    assert (found.writer, found.position, found.behind, found.source_next, found.to_copy) == ("MM2", 12, 28, 40, 20)
    assert (found.repeats, found.exact) == (28, True), "MM2 itself would append these again"
    assert (stage.targets[0].end, len(stage.positions.records())) == before, "it only looked"
    resumed = await ours_begins(stage)
    assert (resumed.source_offset, resumed.tail_records) == (found.source_next, found.behind)


async def test_an_mm2_killed_before_its_first_position() -> None:
    stage = Stage()
    stage.sources[0].data(30)
    mm2_copies(stage, 0, 10)
    (found,) = await survey(stage)
    assert (found.writer, found.behind, found.source_next, found.exact) == ("none", 10, 10, True)
    assert (await ours_begins(stage)).source_offset == 10


async def test_a_lane_that_nobody_copied() -> None:
    stage = Stage()
    stage.sources[0].data(30)
    (found,) = await survey(stage)
    assert (found.writer, found.source_next, found.to_copy, found.repeats, found.exact) == ("none", 0, 30, 0, True)


async def test_a_target_topic_that_is_not_there_yet() -> None:
    stage = Stage()
    stage.sources[0].data(5)
    del stage.b.leader[TopicPartition("A.t", 0)]
    (found,) = await survey(stage)
    assert (found.to_copy, found.exact) == (5, True)


async def test_a_target_that_fits_nowhere_is_said_to_be_copied_again() -> None:
    stage = Stage()
    stage.sources[0].data(30)
    mm2_copies(stage, 0, 12)
    mm2_copies(stage, 20, 21)
    mm2_copies(stage, 22, 23)
    mm2_position(stage, 11)
    (found,) = await survey(stage)
    assert (found.source_next, found.again, found.exact) == (12, (12, 13), False)


async def test_records_of_somebody_else_where_no_position_is() -> None:
    stage = Stage()
    stage.sources[0].data(30)
    stage.targets[0].marker(5, 0)
    stage.targets[0].foreign(3)
    (found,) = await survey(stage)
    assert "records of another writer" in found.trouble
    assert not found.exact


async def test_markers_alone_are_no_records_of_somebody() -> None:
    stage = Stage()
    stage.sources[0].data(3)
    stage.targets[0].marker(5, 0)
    (found,) = await survey(stage)
    assert (found.trouble, found.to_copy) == ("", 3)


@pytest.mark.parametrize(("start", "gap"), [(20, (12, 19)), (0, (30, 39))])
async def test_what_the_source_no_longer_has_is_a_gap(start: int, gap: tuple[int, int]) -> None:
    stage = Stage()
    stage.sources[0].data(30)
    mm2_position(stage, 11 if start else 39)
    stage.sources[0].start = start
    (found,) = await survey(stage)
    assert (found.gap, found.exact) == (gap, False)


async def copied_by_ours() -> Stage:
    """Copy 20 records, the last three in a batch of their own."""
    stage = Stage()
    stage.sources[0].data(17)
    stage.sources[0].data(3)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
    return stage


async def test_after_ours_was_drained_mm2_would_repeat_nothing() -> None:
    stage = await copied_by_ours()
    stage.sources[0].data(4)
    (found,) = await survey(stage)
    assert (found.writer, found.source_next, found.repeats, found.to_copy) == ("raymirror", 20, 0, 4)


async def test_after_ours_was_killed_mm2_would_repeat_its_tail() -> None:
    stage = await copied_by_ours()
    stored = stage.stored()
    old = msgspec.structs.replace(stored, source_next=17, target_next=stored.target_next - 3, sequence=17)
    starts = StartResolver(stage.a, lambda _topic: Earliest())
    look = TakeoverSurvey(stage.a, stage.b, starts, read_committed=False)
    (found,) = await look.survey([lane_name(0)], {TopicPartition("t", 0): old})
    assert (found.position, found.source_next, found.repeats, found.exact) == (17, 20, 3, True)


async def test_an_mm2_that_went_on_from_our_position() -> None:
    stage = await copied_by_ours()
    stage.sources[0].data(10)
    mm2_copies(stage, 20, 26)
    (found,) = await survey(stage)
    assert (found.writer, found.behind, found.source_next, found.exact) == ("raymirror", 6, 26, True)


async def test_a_stranger_behind_our_position() -> None:
    stage = await copied_by_ours()
    first, last = stage.targets[0].foreign(3)
    (found,) = await survey(stage)
    assert found.trouble == f"the target holds records of another writer: offsets {first} to {last}"


async def test_a_target_that_lost_what_we_had_copied() -> None:
    stage = await copied_by_ours()
    stored = stage.stored()
    future = msgspec.structs.replace(stored, target_next=stored.target_next + 100)
    starts = StartResolver(stage.a, lambda _topic: Earliest())
    look = TakeoverSurvey(stage.a, stage.b, starts, read_committed=False)
    (found,) = await look.survey([lane_name(0)], {TopicPartition("t", 0): future})
    assert "it lost records" in found.trouble
    skipped = msgspec.structs.replace(stored, target_next=stored.target_next - 3, sequence=stored.sequence - 9)
    (found,) = await look.survey([lane_name(0)], {TopicPartition("t", 0): skipped})
    assert "target offset 1: batches of this lane are here" in found.trouble


async def test_a_position_that_nobody_can_read() -> None:
    stage = Stage()
    stage.sources[0].data(3)
    key = PositionKeys("A").encode(TopicPartition("t", 0))
    stage.positions.append(bytes(encode_batch([Record(0, 0, key, b"nonsense", ())], 0)))
    (found,) = await survey(stage)
    assert found.writer == "unreadable"
    assert "not a Connect source offset" in found.trouble


async def test_one_topic_that_may_not_be_read_is_its_own_trouble() -> None:
    stage = Stage()
    stage.sources[0].data(3)

    def refuse(asked: str, partitions: object) -> None:
        if asked == "offsets":
            raise KafkaRefusal("offsets of t-0", 29, "TopicAuthorizationFailed", "grant Read")

    stage.a.fail = refuse
    done: list[int] = []
    starts = StartResolver(stage.a, lambda _topic: Earliest())
    look = TakeoverSurvey(stage.a, stage.b, starts, read_committed=False)
    (found,) = await look.survey([lane_name(0)], {}, lambda: done.append(1))
    assert "TopicAuthorizationFailed" in found.trouble
    assert (found.to_copy, done) == (0, [1])


async def test_one_lane_whose_log_cannot_be_read_is_its_own_trouble() -> None:
    stage = Stage(partitions=2)
    for source in stage.sources:
        source.data(30)
    mm2_copies(stage, 0, 12)
    mm2_position(stage, 5)

    async def configs(*_args: object) -> dict[str, dict[str, str]]:
        raise ConnectionLost("broker 1")

    stage.b.topic_configs = configs  # type: ignore[method-assign, assignment]
    found = await survey(stage, lanes=2)
    assert ["broker 1" in one.trouble for one in found] == [True, False]


@pytest.mark.parametrize(("offset", "at"), [(3, 4), (None, 0)])
async def test_a_position_that_a_user_has_set_is_not_compared_with_the_target(offset: int | None, at: int) -> None:
    stage = Stage()
    stage.sources[0].data(10)
    mm2_copies(stage, 0, 10)
    key = PositionKeys("A").encode(TopicPartition("t", 0))
    stage.positions.append(bytes(encode_batch([Record(0, 0, key, altered_value(offset), ())], 0)))
    (found,) = await survey(stage)
    assert (found.writer, found.source_next, found.exact) == ("raymirror", at, False)
    assert (await ours_begins(stage)).source_offset == at
