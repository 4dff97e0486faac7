"""A source of small transactions that are copied one by one: the few positions that are written name every record."""

import random

import msgspec
import pytest

from engine.core.events.events import Resumed
from engine.core.offset_map.offset_map import How
from engine.core.position.announced_runs import split_key
from engine.flow.topic_logs.map_reader import MapOptions, MapReader
from policies.model import TopicPartition
from tests.harness.compare import assert_identical, read_topic
from tests.harness.load import append, numbered, producer
from tests.harness.mirror import Mirror, Run
from tests.harness.offsets import places

pytestmark = pytest.mark.integration

_STEADY, _RANDOM, _PLAIN = 25, 15, 3
_LANE = TopicPartition("small", 0)


async def fill(mirror: Mirror, run: Run, dice: random.Random, sent: int) -> int:
    """Copy transactions of one size, then of random sizes, then records without one, each before the next is sent."""
    async with producer(mirror.source, transactional_id="small") as client:
        for size in [4] * _STEADY + [dice.randint(1, 9) for _ in range(_RANDOM)]:
            await client.begin_transaction()
            await append(client, "small", 0, numbered(size, first=sent))
            await client.commit_transaction()
            sent += size
            await run.until_copied()
    async with producer(mirror.source) as client:
        for _ in range(_PLAIN):
            await append(client, "small", 0, numbered(2, first=sent))
            sent += 2
            await run.until_copied()
    return sent


async def test_a_copy_that_is_cut_off_among_small_transactions_resumes_exactly(mirror: Mirror) -> None:
    mirror.options = msgspec.structs.replace(mirror.options, flush_s=1000.0, unsynced_s=1000.0, epoch_s=1000.0)
    copied = await mirror.topic("small")
    dice, sent = random.Random(3), 0
    for turn in range(3):
        before = sent
        async with mirror.run(drain=turn == 2) as run:
            resumed = await run.until_told(Resumed)
            assert resumed.tail_records in range(before + 1)
            assert (resumed.tail_records > 0) == (turn > 0), "the positions are some transactions behind"
            sent = await fill(mirror, run, dice, sent)
    assert await assert_identical(mirror.source, mirror.target, "small", copied) == sent

    keys = [one.key for part in (await read_topic(mirror.target, mirror.positions_topic)).values() for one in part]
    announced = [key for key in keys if split_key(key) is not None]
    appended = 3 * (_STEADY + _RANDOM + _PLAIN)
    assert 10 < len(announced) < appended / 2
    assert len(keys) - len(announced) < 20

    source, target = await places(mirror.source, "small"), await places(mirror.target, copied)
    truth = {source[value]: offset for value, offset in target.items()}
    assert len(truth) == sent
    async with mirror.asking_target() as cluster:
        options = MapOptions(
            positions_topic=mirror.positions_topic,
            positions_partitions=mirror.options.positions_partitions,
            position_keys=mirror.options.position_keys,
        )
        reader = MapReader(options, cluster)
        await reader.follow()
        for offset in range(max(truth) + 1):
            answer = reader.translate(_LANE, offset)
            assert answer.offset == min(place for at, place in truth.items() if at >= offset)
            assert (answer.how is How.RUN) == (offset in truth)
