"""Reads of a log's end that retention overtakes: the log start moves between the request for it and the read."""

from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
import pytest

from engine.base.clock import wall_ms
from engine.core.events.events import Resumed
from engine.core.position.position_keys import PositionKeys
from engine.core.position.target_tail import TailBatch
from engine.kafka.gateway import KafkaCluster
from engine.wire.record import Record
from policies.model import TopicPartition
from tests.harness.admin import delete_records
from tests.harness.compare import read_topic
from tests.harness.load import Sent, numbered, produce
from tests.harness.mirror import Mirror, Run

pytestmark = pytest.mark.integration

Before = Callable[[TopicPartition, int, int], Awaitable[None]]


async def until_decided(run: Run) -> None:
    """Wait until the one lane copies, or has stopped."""
    await run.until(lambda: run.progress().lanes[0].state in ("copying", "failed"), "owned or failed")
    assert run.progress().lanes[0].state == "copying", run.describe()


async def test_a_tail_that_retention_takes_while_it_is_read_is_looked_at_again(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror.options = msgspec.structs.replace(mirror.options, flush_s=1000.0, unsynced_s=1000.0, epoch_s=1000.0)
    copied = await mirror.topic("tail-eaten")
    async with mirror.run(drain=False) as run:
        await produce(mirror.source, "tail-eaten", 0, numbered(300))
        await run.until_copied()
    read_headers, taken = KafkaCluster.read_headers, list[int]()

    async def overtaken(self: KafkaCluster, partition: TopicPartition, first: int, end: int) -> list[TailBatch]:
        if partition.topic == copied and not taken:
            taken.append(end - 1)
            await delete_records(mirror.target, copied, {0: end - 1})  # the marker of the barrier is left
        return await read_headers(self, partition, first, end)

    monkeypatch.setattr(KafkaCluster, "read_headers", overtaken)
    async with mirror.run() as run:
        await until_decided(run)
        (resumed,) = run.told(Resumed)
        assert (resumed.how, resumed.source_offset) == ("producer state", 300)
        await produce(mirror.source, "tail-eaten", 0, numbered(20, first=300))
        await run.until_copied()
    assert taken
    assert [one.value for one in (await read_topic(mirror.target, copied))[0]] == [
        one.value for one in numbered(20, first=300)
    ]


async def test_a_takeover_whose_source_forgets_what_was_to_be_compared_is_looked_at_again(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = await mirror.topic("take-eaten")
    began_ms = wall_ms()  # younger than the broker's retention, which may look at any moment
    records = [Sent(one.key, one.value, (), began_ms + at) for at, one in enumerate(numbered(200))]
    for cluster, topic, sent in ((mirror.source, "take-eaten", records), (mirror.target, copied, records[:150])):
        await produce(cluster, topic, 0, sent)
    lane = TopicPartition("take-eaten", 0)
    key = PositionKeys(mirror.flow.source).encode(lane)
    for number in range(mirror.options.positions_partitions):  # where MM2 would have put it is no matter here
        await produce(mirror.target, mirror.positions_topic, number, [Sent(key, b'{"offset":99}')])
    read_log, taken = KafkaCluster.read_log, list[int]()

    async def overtaken(
        self: KafkaCluster, partition: TopicPartition, first: int, end: int, *, committed: bool
    ) -> AsyncIterator[list[Record]]:
        if partition == lane and not taken:
            taken.append(first)
            await delete_records(mirror.source, "take-eaten", {0: 50})
        async for found in read_log(self, partition, first, end, committed=committed):
            yield found

    monkeypatch.setattr(KafkaCluster, "read_log", overtaken)
    async with mirror.run() as run:
        await until_decided(run)
        (resumed,) = run.told(Resumed)
        assert (resumed.source_offset, resumed.tail_records) == (150, 50)
        await run.until_copied()
    assert taken == [0]
    assert [one.value for one in (await read_topic(mirror.target, copied))[0]] == [one.value for one in records]
