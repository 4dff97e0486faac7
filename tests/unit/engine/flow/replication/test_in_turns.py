"""Work on many lanes gives way to others, and its result is the same as if it had been done at once."""

import asyncio

import msgspec
import pytest

from engine.base import clock
from engine.flow.replication import maintenance, syncs
from engine.wire.codecs import ZSTD
from engine.wire.record import Record
from engine.wire.records import encode_batch
from policies.model import TopicPartition
from tests.unit.engine.flow.stage import TERMS, Stage, until

LANES = 12


@pytest.fixture(autouse=True)
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every turn is over at once."""
    monkeypatch.setattr(clock, "_TURN_S", 0.0)


def filled() -> Stage:
    stage = Stage(LANES)
    for source in stage.sources:
        source.data(3)
    stage.assign()
    return stage


async def test_a_snapshot_in_turns_is_a_snapshot() -> None:
    stage = filled()
    async with stage.running():
        await until(lambda: all(stage.written_down(number) for number in range(LANES)))
        found = await stage.copier.progress_in_turns()
        at_once = stage.copier.progress()
        assert [one.lane for one in found.lanes] == [one.lane for one in at_once.lanes]
        assert (
            (found.records, found.wire_bytes) == (at_once.records, at_once.wire_bytes) == (3 * LANES, found.wire_bytes)
        )


async def test_a_lane_that_leaves_during_a_snapshot_is_counted_once() -> None:
    stage = filled()
    async with stage.running():
        await until(lambda: all(stage.written_down(number) for number in range(LANES)))
        taking = asyncio.create_task(stage.copier.progress_in_turns())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        driver = stage.copier.drivers.pop(TopicPartition("t", 0))
        stage.copier.left(driver)
        found = await taking
        assert found.records == 3 * LANES
        assert [one.lane.partition for one in found.lanes] == list(range(1, LANES))
        stage.copier.drivers[driver.name.source] = driver


async def test_positions_that_are_due_at_an_interval_are_asked_for_a_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(maintenance, "_LEAST_FLUSHED", 2)
    stage = Stage(LANES)
    stage.copier = stage.new_copier(msgspec.structs.replace(TERMS, flush_s=60.0, unsynced_s=30.0))
    for source in stage.sources:
        source.data(3)
    stage.assign()
    most: list[int] = []
    async with stage.running():
        await until(lambda: all(stage.driver(number).lane.source_next == 3 for number in range(LANES)))
        settled = sum(stage.written_down(number) for number in range(LANES))
        assert settled == 0
        while settled < LANES:
            beat = stage.copier.maintenance.beat + 1
            await until(lambda: stage.copier.maintenance.beat >= beat)  # noqa: B023 - the loop waits for it
            await clock.pause(0.01)
            before, settled = settled, sum(stage.written_down(number) for number in range(LANES))
            most.append(settled - before)
    assert max(most) == 2


async def test_a_batch_of_syncs_encoded_in_turns_is_the_batch() -> None:
    records = [Record(0, 1_000 + number, b"k%d" % number, b"v" * (number % 7)) for number in range(250)]
    assert await syncs._encode_in_turns(records) == encode_batch(records, ZSTD)


async def test_the_beat_grows_within_a_pass_over_many_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a copier of very many lanes, on a busy machine, counts as hung and is ended."""
    monkeypatch.setattr(maintenance, "_LOOKED_AT_ONCE", 2)
    stage = Stage(LANES)
    stage.assign()
    before = stage.copier.beat
    await stage.copier.maintenance._look_at_lanes(clock.now_s(), unsynced=False, epochs=False)
    assert stage.copier.beat - before == LANES // 2 - 1
