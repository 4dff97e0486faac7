"""Writes records for a test, by aiokafka's producer or, in bulk, by Kafka's own producer tool."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer

from deploy.local.cluster import EmbeddedCluster

_TOOL = "org.apache.kafka.tools.ProducerPerformance"


class Sent(NamedTuple):
    """One record to append."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int | None = None


def numbered(count: int, *, first: int = 0, size_bytes: int = 0, keys: int = 0) -> list[Sent]:
    """Make records that differ by number; with `keys`, keys repeat after that many."""
    return [
        Sent(
            b"k%d" % (number % keys) if keys else b"k%d" % number,
            (b"v%d " % number).ljust(size_bytes, b"."),
        )
        for number in range(first, first + count)
    ]


@asynccontextmanager
async def producer(cluster: EmbeddedCluster, **options: Any) -> AsyncIterator[Any]:
    """Open aiokafka's producer; it lingers a little, so that batches hold more than one record."""
    client = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **{"linger_ms": 5, **options})
    await client.start()
    try:
        yield client
    finally:
        await client.stop()


async def append(client: Any, topic: str, partition: int, records: Iterable[Sent]) -> None:
    """Append records in order and wait for every acknowledgement."""
    waiting = [
        await client.send(
            topic,
            one.value,
            key=one.key,
            partition=partition,
            timestamp_ms=one.timestamp_ms,
            headers=list(one.headers),
        )
        for one in records
    ]
    await asyncio.gather(*waiting)


async def produce(
    cluster: EmbeddedCluster, topic: str, partition: int, records: Iterable[Sent], **options: Any
) -> None:
    """Append records through a producer of their own."""
    async with producer(cluster, **options) as client:
        await append(client, topic, partition, records)


async def produce_batch(
    cluster: EmbeddedCluster, topic: str, partition: int, records: Iterable[Sent], **options: Any
) -> int:
    """Append records as exactly one batch; return its base offset."""
    options.setdefault("max_batch_size", 64 * 1024 * 1024)
    async with producer(cluster, **options) as client:
        batch = client.create_batch()
        for one in records:
            taken = batch.append(key=one.key, value=one.value, timestamp=one.timestamp_ms, headers=list(one.headers))
            assert taken is not None, "the batch is larger than the producer allows"
        sent = await client.send_batch(batch, topic, partition=partition)
        return int((await sent).offset)


async def pour(
    cluster: EmbeddedCluster,
    topic: str,
    count: int,
    *,
    size_bytes: int = 100,
    codec: str = "lz4",
    batch_bytes: int = 65536,
) -> None:
    """Append many records of random letters, spread over all partitions, by Kafka's own tool."""
    properties = (
        f"bootstrap.servers={cluster.bootstrap_servers}",
        f"compression.type={codec}",
        f"batch.size={batch_bytes}",
    )
    size = ("--num-records", str(count), "--record-size", str(size_bytes), "--throughput", "-1")
    await asyncio.to_thread(
        cluster.tool, _TOOL, "--topic", topic, *size, "--command-property", *properties, "linger.ms=20", timeout_s=600
    )
