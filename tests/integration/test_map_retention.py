"""Blocks of the offset map whose records, or whose map topic, are deleted on a real target: no answer becomes wrong."""

import asyncio
import random

import msgspec
import pytest

from engine.core.offset_map import map_runs
from engine.core.offset_map.map_blocks import block_key, encode_block, read_block_key
from engine.core.offset_map.map_runs import MapBlock, MapRun
from engine.core.offset_map.offset_map import How
from engine.flow.topic_logs.map_reader import MapOptions, MapReader
from policies.model import TopicPartition
from tests.harness.admin import create_topics, delete_records, delete_topic
from tests.harness.load import Sent, produce
from tests.harness.mirror import Mirror
from tests.harness.offsets import places
from tests.integration.test_offset_map import fill

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

    mirror.options = msgspec.structs.replace(mirror.options, map_retention_s=0.2)
    async with mirror.run():
        async with asyncio.timeout(60):
            while not await removed(mirror):  # noqa: ASYNC110 - what the copier writes, nobody tells
                await asyncio.sleep(0.2)

    left = {source[value]: offset for value, offset in target.items() if offset >= log_start}
    async with mirror.asking_target() as cluster:
        options = MapOptions(
            positions_topic=mirror.positions_topic,
            position_keys=mirror.options.position_keys,
            positions_partitions=mirror.options.positions_partitions,
        )
        reader = MapReader(options, cluster)
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


async def test_a_map_topic_made_again_that_has_grown_beyond_its_former_end(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others' blocks lie where this lane's did, before anybody has looked: none of them is taken for ours."""
    monkeypatch.setattr(map_runs, "RUNS_PER_BLOCK", 4)
    topic, lane, chance = "map-remade", TopicPartition("map-remade", 0), random.Random(11)
    copied = await mirror.topic(topic)
    await fill(mirror, topic, chance, 0)
    options = MapOptions(
        positions_topic=mirror.positions_topic,
        position_keys=mirror.options.position_keys,
        positions_partitions=mirror.options.positions_partitions,
        keep_runs=1,
    )
    async with mirror.asking_target() as cluster, mirror.run() as run:
        await run.until_copied()
        (driver,) = run.copier.drivers.values()
        await run.until(lambda: not driver.blocks.due and not driver.blocks.writing, "blocks are durable")
        reader = MapReader(options, cluster)
        await reader.follow()
        before = driver.blocks._lane.map
        assert before is not None
        lost = before.blocks
        await delete_topic(mirror.target, mirror.map_topic)
        configs = {"cleanup.policy": "compact"}
        await create_topics(mirror.target, {mirror.map_topic: mirror.options.positions_partitions}, configs=configs)
        strangers = [
            Sent(
                block_key(mirror.flow.source, TopicPartition("other", 1), number),
                encode_block(MapBlock(number, 1, (MapRun(number * 9, 1_000_000 + number * 9, 5),))),
            )
            for number in range(3 * lost)
        ]
        await produce(mirror.target, mirror.map_topic, driver.block_appender.partition.partition, strangers)
        await fill(mirror, topic, chance, 100)
        await run.until_copied()
        await run.until(lambda: before.blocks > lost and not driver.blocks.writing, "blocks in the new topic")
        driver.positions.flush_asked = True
        run.copier.router.schedule_send([driver])
        await run.until(lambda: driver.positions.is_durable(driver.lane.position_version), "the position counts them")
        await reader.follow()
        target, source = await places(mirror.target, copied), await places(mirror.source, topic)
        head = reader.head(lane)
        assert head is not None
        assert head.blocks > lost
        found = {source[value]: offset for value, offset in target.items()}
        answered = 0
        for offset in range(head.source_next):
            answer = reader.translate(lane, offset)
            if answer.how is How.UNREAD:
                await reader.recall(lane, [answer.block])
                answer = reader.translate(lane, offset)
            assert answer.how in (How.RUN, How.REFINED, How.END, How.BEFORE), (offset, answer)
            if answer.how is not How.BEFORE:
                answered += 1
                expected = min((place for one, place in found.items() if one >= offset), default=head.target_next)
                assert answer.offset == expected, (offset, answer)
        assert 0 < answered < head.source_next
