"""Source and target read whole by aiokafka's stock consumer, which shares no code with the mirror, and compared."""

import asyncio
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition

from deploy.local.cluster import Cluster
from tests.harness.admin import partition_count

_DEADLINE_S = 300.0


class Read(NamedTuple):
    """One record as a consumer sees it, without its offset."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int | None


async def read_topic(
    cluster: Cluster, topic: str, *, committed: bool = False, timestamps: bool = True
) -> dict[int, list[Read]]:
    """Read every partition to its present end, in offset order; raises TimeoutError."""
    numbers = range(await partition_count(cluster, topic))
    if not numbers:
        return {}
    consumer = AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        isolation_level="read_committed" if committed else "read_uncommitted",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_partition_fetch_bytes=8 * 1024 * 1024,
    )
    await consumer.start()
    try:
        async with asyncio.timeout(_DEADLINE_S):
            return await _read(consumer, [KafkaPartition(topic, number) for number in numbers], timestamps)
    finally:
        await consumer.stop()


async def _read(
    consumer: AIOKafkaConsumer, partitions: list[KafkaPartition], timestamps: bool
) -> dict[int, list[Read]]:
    consumer.assign(partitions)
    await consumer.seek_to_beginning(*partitions)
    ends = await consumer.end_offsets(partitions)
    records: dict[int, list[Read]] = {partition.partition: [] for partition in partitions}
    left = set(partitions)
    while left:
        left -= {partition for partition in left if await consumer.position(partition) >= ends[partition]}
        if not left:
            break
        for partition, found in (await consumer.getmany(timeout_ms=100)).items():
            records[partition.partition] += [
                Read(one.key, one.value, tuple(one.headers), one.timestamp if timestamps else None) for one in found
            ]
    return records


async def assert_identical(
    source: Cluster,
    target: Cluster,
    topic: str,
    copied: str,
    *,
    committed: bool = False,
    timestamps: bool = True,
    after: dict[int, int] | None = None,
) -> int:
    """Compare every record: count, order, key, value, headers, timestamp; return how many there are.

    `after` leaves out that many records at the beginning of source partitions.
    """
    expected = await read_topic(source, topic, committed=committed, timestamps=timestamps)
    found = await read_topic(target, copied, timestamps=timestamps)
    assert expected.keys() == found.keys()
    for number, records in expected.items():
        _assert_equal(f"{topic}-{number}", records[(after or {}).get(number, 0) :], found[number])
    return sum(len(records) for records in found.values())


def _assert_equal(where: str, expected: list[Read], found: list[Read]) -> None:
    if expected == found:
        return
    for index, (one, other) in enumerate(zip(expected, found, strict=False)):
        assert one == other, f"{where}: record {index} of {len(expected)} differs ({_count(expected, found)})"
    raise AssertionError(f"{where}: {_count(expected, found)}")


def _count(expected: list[Read], found: list[Read]) -> str:
    wanted, there = set(expected), set(found)
    doubled = len(found) - len(there)
    return (
        f"source {len(expected)}, target {len(found)}: {len(wanted - there)} lost, {len(there - wanted)} foreign,"
        f" {doubled} more than once"
    )
