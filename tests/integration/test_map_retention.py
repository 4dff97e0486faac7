"""Blocks of the exact map on a real target whose records are deleted: removed, and no answer becomes wrong."""

import asyncio
import random

import msgspec
import pytest

from engine.core import map_runs
from engine.core.map_blocks import read_block_key
from engine.core.offset_map import How
from engine.flow.map_reader import MapReader, MapTerms
from policies.model import TopicPartition
from tests.harness.admin import delete_records
from tests.harness.mirror import Mirror
from tests.integration.test_offset_map import fill, places

pytestmark = pytest.mark.integration


async def removed(mirror: Mirror) -> set[int]:
    """Return the numbers of the blocks whose last record is a tombstone."""
    last: dict[int, bytes | None] = {}
    async with mirror.asking_target() as cluster:
        for key, value in await cluster.read_records(mirror.map_topic):
            found = read_block_key(key)
            if found is not None:
                last[found[2]] = value
    return {number for number, value in last.items() if value is None}


async def test_blocks_of_deleted_records_are_removed(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_runs, "RUNS_PER_BLOCK", 4)
    topic, lane = "eaten", TopicPartition("eaten", 0)
    copied = await mirror.topic(topic)
    await fill(mirror, topic, random.Random(7), 0)
    async with mirror.run() as run:
        await run.until_copied()
    target, source = await places(mirror.target, copied), await places(mirror.source, topic)
    log_start = sorted(target.values())[len(target) // 2]
    await delete_records(mirror.target, copied, {0: log_start})

    mirror.terms = msgspec.structs.replace(mirror.terms, map_retention_s=0.2)
    async with mirror.run():
        async with asyncio.timeout(60):
            while not await removed(mirror):  # noqa: ASYNC110 - what the copier writes, nobody tells
                await asyncio.sleep(0.2)

    left = {source[value]: offset for value, offset in target.items() if offset >= log_start}
    async with mirror.asking_target() as cluster:
        terms = MapTerms(
            positions_topic=mirror.positions_topic,
            position_keys=mirror.terms.position_keys,
            positions_partitions=mirror.terms.positions_partitions,
        )
        reader = MapReader(terms, cluster)
        await reader.follow()
        head, known = reader.head(lane), reader.map_of(lane)
        assert head is not None
        assert known is not None
        assert known.begins is not None
        assert known.begins.first
        gone = await removed(mirror)
        assert gone == set(range(len(gone)))
        assert 2 <= len(gone) < head.blocks
        for offset in range(head.source_next + 1):
            answer = reader.translate(lane, offset)
            assert answer.how in (How.RUN, How.REFINED, How.END)
            at = max(answer.offset, log_start)
            expected = min((place for one, place in left.items() if one >= offset), default=None)
            assert min((place for place in left.values() if place >= at), default=None) == expected, (offset, answer)
