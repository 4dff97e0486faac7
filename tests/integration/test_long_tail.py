"""A takeover far behind the last position: one batch shows where the copy ended, and which records follow."""

import msgspec
import pytest

from engine.core.events.events import Resumed
from engine.core.position.target_tail import TailBatch
from engine.flow.topic_logs.map_reader import MapOptions, MapReader
from engine.kafka.gateway import KafkaCluster
from policies.model import TopicPartition
from tests.harness.compare import assert_identical
from tests.harness.load import numbered, produce
from tests.harness.mirror import Mirror

pytestmark = pytest.mark.integration

_ROUNDS, _RECORDS = 30, 200


class Counting(KafkaCluster):
    """A target that counts the batch headers it was read."""

    headers = 0

    async def read_headers(self, partition: TopicPartition, first: int, end: int) -> list[TailBatch]:
        found = await super().read_headers(partition, first, end)
        Counting.headers += len(found)
        return found


async def test_a_long_tail_costs_one_batch(mirror: Mirror) -> None:
    mirror.options = msgspec.structs.replace(mirror.options, flush_s=1000.0, unsynced_s=1000.0, epoch_s=1000.0)
    mirror.target_port = Counting
    copied = await mirror.topic("long")
    async with mirror.run(drain=False) as run:
        for turn in range(_ROUNDS):
            await produce(mirror.source, "long", 0, numbered(_RECORDS, first=turn * _RECORDS))
        await run.until_copied()
    Counting.headers = 0
    async with mirror.run() as run:
        resumed = await run.until_told(Resumed)
        assert (resumed.how, resumed.tail_records, resumed.source_offset) == (
            "tail",
            _ROUNDS * _RECORDS,
            _ROUNDS * _RECORDS,
        )
        assert Counting.headers <= 3, "the last batch, and the marker behind it"
        await produce(mirror.source, "long", 0, numbered(10, first=_ROUNDS * _RECORDS))
        await run.until_copied()
    assert await assert_identical(mirror.source, mirror.target, "long", copied) == _ROUNDS * _RECORDS + 10
    async with mirror.asking_target() as cluster:
        partitions = mirror.options.positions_partitions
        options = MapOptions(
            positions_topic=mirror.positions_topic,
            position_keys=mirror.options.position_keys,
            positions_partitions=partitions,
        )
        reader = MapReader(options, cluster)
        await reader.follow()
        lane = TopicPartition("long", 0)
        last = _ROUNDS * _RECORDS - 1
        # The first run needed no barrier; the marker of the second one's lies behind the tail.
        assert [reader.translate(lane, at).offset for at in (0, last, last + 1)] == [0, last, last + 2]
