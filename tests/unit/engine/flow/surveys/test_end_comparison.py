"""The ends of both sides compared, from the topics that a copier left."""

import pytest

from engine.core.offset_map.map_blocks import map_topic
from engine.core.position.end_offsets import EndsRow, EndsVerdict
from engine.core.position.position_keys import PositionKeys
from engine.flow.refused.quarantine_reader import QuarantineReader
from engine.flow.surveys import end_comparison
from engine.flow.surveys.end_comparison import NO_COPY, NO_MAP, EndComparison
from engine.flow.topic_logs.map_reader import MapOptions, MapReader
from policies.model import LaneName, TopicPartition
from tests.unit.engine.flow.refused.test_replay import Held
from tests.unit.engine.flow.stage import POSITIONS, Stage, lane_name, until


async def compared(stage: Stage, *lanes: LaneName) -> list[EndsRow]:
    options = MapOptions(positions_topic=POSITIONS, position_keys=PositionKeys("A"), positions_partitions=1)
    reader = MapReader(options, stage.b)
    return await EndComparison(stage.a, stage.b, reader, QuarantineReader(stage.b, "A")).compare(
        lanes or [lane_name(0)]
    )


async def copied(stage: Stage, *, clean: bool = True) -> None:
    """Copy what is there in a run of its own."""
    stage.copier = stage.new_copier()
    stage.assign()
    async with stage.running():
        await until(lambda: stage.whole() and stage.written_down())
        stage.b.all_answer = clean


def quiet() -> Stage:
    stage = Stage()
    stage.b.all_answer = True
    return stage


async def test_clean_runs_end_alike() -> None:
    stage = quiet()
    for _ in range(2):
        stage.sources[0].data(4)
        await copied(stage)
    (row,) = await compared(stage)
    assert (row.verdict, row.why) == (EndsVerdict.EQUAL, "")
    assert (row.source_end, row.target_end, row.copied, row.markers) == (8, 8, 8, 0)


async def test_markers_and_holes_of_the_source_and_what_waits_are_named() -> None:
    stage = quiet()
    stage.sources[0].data(4)
    await copied(stage, clean=False)  # the next start finds a broker that does not answer
    stage.sources[0].vanish(2)
    stage.sources[0].data(3)
    await copied(stage)
    stage.sources[0].data(5)
    (row,) = await compared(stage)
    assert (row.markers, row.left_out, row.waiting, row.copied) == (1, 2, 5, 7)
    assert row.verdict is EndsVerdict.EXPLAINED
    assert row.target_end - row.source_end == row.markers - row.left_out - row.waiting


async def test_records_of_others_are_not_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(end_comparison, "_AGAIN_S", 0.0)
    stage = quiet()
    stage.sources[0].data(4)
    await copied(stage)
    stage.targets[0].foreign(2)
    (row,) = await compared(stage)
    assert (row.verdict, row.strangers) == (EndsVerdict.UNEXPLAINED, 2)


async def test_a_copy_that_is_not_there_and_one_without_a_map_are_unknown() -> None:
    stage = quiet()
    stage.sources[0].data(4)
    nowhere = LaneName(TopicPartition("t", 0), TopicPartition("other", 0))
    found = await compared(stage, lane_name(0), nowhere)
    assert [(row.verdict, row.why) for row in found] == [(EndsVerdict.UNKNOWN, NO_MAP), (EndsVerdict.UNKNOWN, NO_COPY)]
    assert stage.b.targets[TopicPartition(map_topic("A"), 0)].end == 0


async def test_more_holes_than_are_looked_into_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(end_comparison, "_MOST_HOLES", 1)
    stage = quiet()
    for _ in range(3):
        stage.sources[0].data(2)
        await copied(stage, clean=False)
    (row,) = await compared(stage)
    assert (row.verdict, row.markers, row.unseen) == (EndsVerdict.UNEXPLAINED, 1, 1)


async def test_refused_records_and_their_replays_are_explained() -> None:
    stage = Held()
    async with stage.running():
        states = await stage.held()
        stage.mend()
        await stage.replay.begin()
        record = await stage.reader.contents(states[0])
        assert record is not None
        await stage.replay.replay(states[0], record)
        (row,) = await compared(stage)
    assert (row.left_out, row.replayed, row.strangers) == (2, 1, 0)
    assert "1 record replayed from the quarantine topic" in row.why
    assert row.verdict is EndsVerdict.EXPLAINED
