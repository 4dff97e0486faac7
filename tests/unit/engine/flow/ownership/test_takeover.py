"""A lane that MM2 copied until now: records behind MM2's position are found, or reported as not found."""

import msgspec

from engine.core.events.events import CopiedAgain, Resumed
from engine.core.offset_map.map_runs import MapStart
from engine.core.position.position_keys import PositionKeys
from engine.wire.record import Record
from engine.wire.records import encode_batch
from policies.model import TopicPartition
from tests.unit.engine.core.maps import records_of
from tests.unit.engine.flow.stage import Stage, until


def mm2_copied(stage: Stage, offsets: list[int], position: int | None) -> None:
    """Put records on the target as MM2 does, and a position of its own, unless it never came to that."""
    wanted = [record for batch in stage.sources[0].read(committed=True) for record in batch if record.offset in offsets]
    by_offset = {record.offset: record for record in wanted}
    for offset in offsets:
        stage.targets[0].append(bytes(encode_batch([by_offset[offset]], 0)))
    if position is None:
        return
    key = PositionKeys("A").encode(TopicPartition("t", 0))
    value = b'{"offset":%d}' % position
    stage.positions.append(bytes(encode_batch([Record(0, 0, key, value, ())], 0)))


async def copied(stage: Stage) -> Resumed:
    """Let ours go on to the end; return how it began."""
    stage.assign()
    async with stage.running():
        await until(lambda: stage.driver().lane.source_next == stage.sources[0].end)
    (resumed,) = stage.told(Resumed)
    assert isinstance(resumed, Resumed)
    return resumed


async def test_what_mm2_copied_behind_its_position_is_not_copied_again() -> None:
    stage = Stage()
    stage.sources[0].data(50)
    mm2_copied(stage, list(range(40)), position=11)
    resumed = await copied(stage)
    assert (resumed.source_offset, resumed.tail_records) == (40, 28)
    assert stage.whole()
    assert stage.told(CopiedAgain) == []


async def test_a_hole_in_the_source_moves_the_place_with_it() -> None:
    stage = Stage()
    stage.sources[0].data(20, holes=frozenset({12, 13, 14}))
    mm2_copied(stage, [one for one in range(17) if one not in (12, 13, 14)], position=10)
    resumed = await copied(stage)
    assert (resumed.source_offset, resumed.tail_records) == (17, 3)
    assert stage.whole()
    stored = stage.stored()
    assert stored.map_start == MapStart(11, stage.targets[0].places()[11], first=False)
    behind = {source: target for source, target in stage.targets[0].places().items() if source >= 11}
    assert records_of(stored.map_tail) == behind  # what MM2 copied behind its position is in our map


async def test_a_target_that_fits_nowhere_is_copied_again_and_said() -> None:
    stage = Stage()
    stage.sources[0].data(30)
    mm2_copied(stage, [*range(12), 20, 22], position=11)
    resumed = await copied(stage)
    assert resumed.source_offset == 12
    (again,) = stage.told(CopiedAgain)
    assert isinstance(again, CopiedAgain)
    assert (again.first, again.last) == (12, 13)
    assert "12 to 13" in again.text()


async def test_a_position_below_the_source_s_start_is_a_gap_and_nothing_is_read() -> None:
    stage = Stage()
    stage.sources[0].data(30)
    mm2_copied(stage, list(range(12)), position=5)
    stage.sources[0].start = 20
    stage.assign()
    async with stage.running():
        await until(lambda: stage.driver().health.reason != "")
    assert "6 to 19" in stage.driver().health.reason


async def test_timestamps_that_the_target_gave_itself_are_not_compared() -> None:
    stage = Stage()
    stage.b.configs["A.t"] = {"message.timestamp.type": "LogAppendTime"}
    stage.sources[0].data(30)
    records = [record for batch in stage.sources[0].read(committed=True) for record in batch]
    for record in records[:20]:
        stage.targets[0].append(bytes(encode_batch([msgspec.structs.replace(record, timestamp=5)], 0)))
    mm2_copied(stage, [], position=9)
    assert (await copied(stage)).source_offset == 20


async def test_a_record_that_looks_like_the_copied_ones_is_copied_where_the_source_has_none_of_them_left() -> None:
    """The target's times are its own, so the copies of ten records before the position look like the one behind it."""
    stage = Stage()
    stage.b.configs["A.t"] = {"message.timestamp.type": "LogAppendTime"}
    stage.sources[0].data(30)
    (alike,) = (one for batch in stage.sources[0].read(committed=True) for one in batch if one.offset == 10)
    for _ in range(10):
        stage.targets[0].append(bytes(encode_batch([alike], 0)))
    mm2_copied(stage, [], position=9)
    stage.sources[0].start = 10
    resumed = await copied(stage)
    assert (resumed.source_offset, resumed.tail_records) == (10, 0)
    assert stage.copied() == [10] * 10 + list(range(10, 30))
    assert len(stage.told(CopiedAgain)) == 1


async def test_an_mm2_killed_before_its_first_position_is_continued_too() -> None:
    stage = Stage()
    stage.sources[0].data(50)
    mm2_copied(stage, list(range(40)), position=None)
    resumed = await copied(stage)
    assert (resumed.source_offset, resumed.tail_records) == (40, 40)
    assert stage.whole()


async def test_records_of_somebody_else_on_the_target_still_stop_the_lane() -> None:
    stage = Stage()
    stage.sources[0].data(50)
    mm2_copied(stage, [0, 1, 3], position=None)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.driver().health.reason != "")
    assert "another writer" in stage.driver().health.reason


async def test_an_mm2_that_went_on_from_our_position_is_continued_too() -> None:
    stage = Stage()
    stage.sources[0].data(20)
    await copied(stage)
    stage.sources[0].data(30)
    mm2_copied(stage, list(range(20, 35)), position=None)
    stage.copier, stage.events = stage.new_copier(), []
    stage.assign(epoch=2)
    async with stage.running():
        await until(lambda: stage.driver().lane.source_next == 50)
    assert [(one.source_offset, one.tail_records) for one in stage.told(Resumed) if isinstance(one, Resumed)] == [
        (35, 15)
    ]
    assert stage.whole()
