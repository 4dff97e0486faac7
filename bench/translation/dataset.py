"""A source on which translation is hard: transactions, some of them aborted, and a compacted log full of holes."""

import asyncio
import random
from typing import Any

import msgspec
from aiokafka import AIOKafkaProducer

from bench.admin import admin, create_topic, set_configs
from bench.errors import BenchError
from bench.kafka_peek import KafkaPeek

TRANSACTIONS, COMPACTED = "translate-transactions", "translate-compacted"
_SPAN = 25
"""Records of one transaction."""
_ABORTED = 0.05
_AGAIN = 0.4
"""Share of records in the compacted topic whose key comes again soon."""
_VALUE_BYTES = 60
_CLEAN_S = 180.0
_LOOK_S = 1.0
_OLD_MS = 1000
"""A segment of this age ends with the next record, and then the cleaner may clean it."""
_COMPACT = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.bytes": str(8 * 1024 * 1024),
    "max.compaction.lag.ms": str(_OLD_MS),
}
_RESTING = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(24 * 3_600_000)}
"""Stops the cleaner, here and on a copy: after some idle checks it may otherwise continue during the copy."""


class Dataset(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the source."""

    topics: tuple[str, ...]
    partitions: int
    sent: int
    left: int
    """Records of the compacted topic that are still there."""
    holes: int
    """Number of holes in the offsets of its batches."""


async def fill(address: str, records: int, partitions: int) -> Dataset:
    """Write both topics, half of the records each, and wait until the cleaner has finished. Raises BenchError."""
    await create_topic(address, TRANSACTIONS, partitions)
    await create_topic(address, COMPACTED, partitions, _COMPACT)
    each = records // 2 // partitions
    async with asyncio.TaskGroup() as group:
        for partition in range(partitions):
            group.create_task(_transactions(address, partition, each))
    async with asyncio.TaskGroup() as group:
        for partition in range(partitions):
            group.create_task(_repeating(address, partition, each))
    await _cleaned(address, partitions, each)
    async with admin(address) as client:
        await set_configs(client, [COMPACTED], _RESTING)
    left = await _cleaned(address, partitions, each)
    return Dataset(
        topics=(TRANSACTIONS, COMPACTED),
        partitions=partitions,
        sent=2 * each * partitions,
        left=left,
        holes=each * partitions - left,
    )


def _value(partition: int, number: int) -> bytes:
    return b"%d-%d " % (partition, number) + b"." * _VALUE_BYTES


async def _transactions(address: str, partition: int, records: int) -> None:
    rng = random.Random(partition)
    client: Any = AIOKafkaProducer(
        bootstrap_servers=address, transactional_id=f"translate-{partition}", linger_ms=1, max_batch_size=65536
    )
    await client.start()
    try:
        for first in range(0, records, _SPAN):
            await client.begin_transaction()
            for number in range(first, min(records, first + _SPAN)):
                await client.send(TRANSACTIONS, _value(partition, number), partition=partition)
            await client.flush()
            await (client.abort_transaction() if rng.random() < _ABORTED else client.commit_transaction())
    finally:
        await client.stop()


async def _repeating(address: str, partition: int, records: int) -> None:
    """Keys of which some come again within the next thousand: compaction takes single records, not whole batches."""
    rng = random.Random(1000 + partition)
    client: Any = AIOKafkaProducer(bootstrap_servers=address, linger_ms=20, max_batch_size=65536)
    await client.start()
    try:
        for number in range(records):
            again = rng.random() < _AGAIN and number > 1000
            key = b"%d" % (number - rng.randrange(1, 1000) if again else number)
            if number == records - 1:
                await client.flush()
                await asyncio.sleep(2 * _OLD_MS / 1000)
            await client.send(COMPACTED, _value(partition, number), key=key, partition=partition)
        await client.flush()
    finally:
        await client.stop()


async def _cleaned(address: str, partitions: int, each: int) -> int:
    """Wait until several checks in a row show that the cleaner removes nothing more; return the records left."""
    seen: list[int] = []
    deadline_s = asyncio.get_running_loop().time() + _CLEAN_S
    while len(seen) < 5 or len(set(seen[-5:])) > 1 or seen[-1] > each * partitions * 0.9:
        if asyncio.get_running_loop().time() > deadline_s:
            raise BenchError("dataset", f"the log cleaner has not come to rest within {_CLEAN_S:.0f} s: {seen[-5:]}")
        await asyncio.sleep(_LOOK_S)
        seen.append(await asyncio.to_thread(_count, address, partitions))
    return seen[-1]


def _count(address: str, partitions: int) -> int:
    with KafkaPeek(address) as peek:
        return sum(peek.count(COMPACTED, partition).records for partition in range(partitions))
