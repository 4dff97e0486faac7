"""Map blocks are deleted after the target's retention has deleted their records, and no answer becomes wrong."""

import msgspec
import pytest

from engine.base.errors import ConnectionLost
from engine.core.offset_map import map_runs
from engine.core.offset_map.map_blocks import read_block_key
from engine.core.offset_map.offset_map import How
from engine.flow.topic_logs.map_reader import MapReader
from tests.unit.engine.flow.stage import TERMS, until
from tests.unit.engine.flow.topic_logs.test_map_reader import LANE, Holes, played

QUICK = msgspec.structs.replace(TERMS, map_retention_s=0.02)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_runs, "RUNS_PER_BLOCK", 3)


def left(stage: Holes) -> dict[int, bytes | None]:
    """Return the values of blocks by number, as compaction leaves them."""
    found = {read_block_key(one.key): one.value for one in stage.blocks.records()}
    return {key[2]: value for key, value in found.items() if key is not None}


def gone(stage: Holes) -> set[int]:
    return {number for number, value in left(stage).items() if value is None}


def eat(stage: Holes, blocks: int) -> int:
    """Let retention take what so many blocks name, and a record more."""
    places = sorted(stage.targets[0].places().values())
    end = max(at for at in places if at < places[-1] // 2) if blocks else 0
    stage.targets[0].retain_from(end)
    return end


async def judge(stage: Holes, reader: MapReader) -> None:
    """Clamped to the log start, every answer names the first record that is left at or behind an offset."""
    head, log = reader.head(LANE), stage.targets[0]
    assert head is not None
    for offset in range(head.source_next + 1):
        answer = reader.translate(LANE, offset)
        if answer.how is How.UNREAD:
            await reader.recall(LANE, [answer.block])
            answer = reader.translate(LANE, offset)
        assert answer.exact, (offset, answer)
        at, places = max(answer.offset, log.start), log.places()
        expected = min((target for source, target in places.items() if source >= offset), default=None)
        assert min((target for target in places.values() if target >= at), default=None) == expected, offset


async def test_eaten_blocks_are_removed_and_readers_go_on() -> None:
    stage = await played(6)
    before = stage.reader()
    await before.follow()
    blocks = stage.stored().map_blocks
    end = eat(stage, blocks)
    stage.copier = stage.new_copier(QUICK)
    stage.assign(epoch=2)
    async with stage.running():
        await until(lambda: gone(stage))
        await until(lambda: not stage.driver().blocks.due and not stage.driver().blocks.writing)
        stage.more(3)
        await stage.copied_all()
    stored = stage.stored()
    assert 0 < len(gone(stage)) < blocks
    assert gone(stage) == set(range(len(gone(stage))))
    assert stored.map_first
    assert 0 < stored.map_target <= end + 4
    for reader in (before, stage.reader(), stage.reader(keep_runs=1)):
        await reader.follow()
        await judge(stage, reader)


async def test_nothing_goes_while_nothing_is_eaten() -> None:
    stage = await played(6)
    stage.copier = stage.new_copier(QUICK)
    stage.assign(epoch=2)
    asked: list[str] = []
    stage.b.fail = lambda what, _partitions: asked.append(what)
    async with stage.running():
        await until(lambda: stage.driver().lane.announced)
        asked.clear()
        await until(lambda: asked.count("offsets") > 3)
    assert not gone(stage)


async def test_a_look_that_fails_is_made_again() -> None:
    stage = await played(6)
    eat(stage, stage.stored().map_blocks)
    stage.copier = stage.new_copier(QUICK)
    stage.assign(epoch=2)
    failures: list[str] = []

    def fail(what: str, _partitions: object) -> None:
        if what == "read log" and stage.driver().lane.announced and len(failures) < 2:
            failures.append(what)
            raise ConnectionLost("gone")

    stage.b.fail = fail
    async with stage.running():
        await until(lambda: gone(stage))
    assert len(failures) == 2
