"""Records behind the newest position of a lane, and which of them another producer wrote."""

import pytest

from engine.core.position.position_keys import PositionKeys
from engine.core.position.target_tail import TailBatch
from engine.flow.refused.quarantine_reader import QuarantineReader
from engine.flow.topic_logs.map_reader import MapOptions, MapReader
from engine.jobs.proof import beyond as proof_beyond
from engine.jobs.proof.beyond import BeyondScan, BeyondStretch, differences_of, foreign_ranges
from policies.model import LaneName, TopicPartition
from tests.unit.engine.flow.refused.test_replay import Held
from tests.unit.engine.flow.stage import POSITIONS, Stage, lane_name, until
from tests.unit.engine.flow.surveys.test_end_comparison import copied, quiet

OURS, THEIRS = 7, 8
LANE = LaneName(TopicPartition("t", 0), TopicPartition("A.t", 0))


def batch(first: int, end: int, producer: int, *, control: bool = False, opened: bool = False) -> TailBatch:
    return TailBatch(first, end, producer, 0, 0, end - first, control, opened)


def test_records_of_another_producer_are_foreign_and_markers_and_ours_are_not() -> None:
    batches = [
        batch(8, 12, THEIRS),
        batch(12, 14, THEIRS),
        batch(14, 15, THEIRS, control=True),
        batch(15, 17, OURS),
        batch(17, 18, THEIRS, opened=True),
        batch(18, 25, -1),
    ]
    assert foreign_ranges(batches, OURS, (10, 20)) == ((10, 14), (18, 20))


def test_each_record_is_named_and_of_very_many_the_first_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [(one.target_offset, one.source_offset, one.what) for one in differences_of(LANE, [(10, 12)])] == [
        (10, -1, "of another writer, behind the newest position"),
        (11, -1, "of another writer, behind the newest position"),
    ]
    monkeypatch.setattr(proof_beyond, "MOST_TOLD", 2)
    assert differences_of(LANE, [(10, 12), (20, 30)])[-1].what.endswith(", and 10 behind it")


@pytest.mark.parametrize("others", [0, 3])
async def test_another_writer_behind_the_copy_is_found(others: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof_beyond, "AGAIN_S", 0.0)
    stage = quiet()
    stage.sources[0].data(4)
    await copied(stage)
    before = stage.targets[0].end
    if others:
        stage.targets[0].foreign(others)
    found = await strangers_of(stage).find({lane_name(0): BeyondStretch(0, stage.targets[0].end, 0)})
    assert found == ({lane_name(0): ((before, before + others),)} if others else {})


@pytest.mark.parametrize("clean", [True, False])
async def test_what_a_new_owner_has_just_copied_is_no_strangers(clean: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the owner before it left in order or not, and although no position tells of these records yet."""
    monkeypatch.setattr(proof_beyond, "AGAIN_S", 0.0)
    stage = quiet()
    stage.sources[0].data(4)
    await copied(stage, clean=clean)
    stage.copier = stage.new_copier()
    stage.assign()
    stage.sources[0].data(6)
    async with stage.running():
        await until(stage.whole)
        found = await strangers_of(stage).find({lane_name(0): BeyondStretch(0, stage.targets[0].end, 0)})
    assert found == {}


def strangers_of(stage: Stage) -> BeyondScan:
    options = MapOptions(positions_topic=POSITIONS, positions_partitions=1, position_keys=PositionKeys("A"))
    return BeyondScan(stage.b, MapReader(options, stage.b), QuarantineReader(stage.b, "A"))


async def test_replayed_records_behind_the_copy_are_no_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof_beyond, "AGAIN_S", 0.0)
    stage = Held()
    async with stage.running():
        states = await stage.held()
        stage.mend()
        await stage.replay.begin()
        record = await stage.reader.contents(states[0])
        assert record is not None
        await stage.replay.replay(states[0], record)
        behind = {lane_name(0): BeyondStretch(0, stage.targets[0].end, 0)}
        assert await strangers_of(stage).find(behind) == {}
        stage.targets[0].foreign(1)
        end = stage.targets[0].end
        assert await strangers_of(stage).find({lane_name(0): BeyondStretch(0, end, 0)}) == {
            lane_name(0): ((end - 1, end),)
        }
