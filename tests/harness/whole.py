"""Reads whole partitions by aiokafka's stock consumer, without any code of the mirror."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition

from deploy.local.cluster import EmbeddedCluster

_DEADLINE_S = 300.0
_FETCH_BYTES = 8 * 1024 * 1024


async def read_whole(
    cluster: EmbeddedCluster, topic: str, numbers: Sequence[int], *, committed: bool
) -> AsyncIterator[Any]:
    """Read partitions to their present end at least; give each record as aiokafka has it. Raises TimeoutError.

    By its default a consumer would go to the end, and a `seek_to_beginning` may meet that answer on its way.
    """
    partitions = [KafkaPartition(topic, number) for number in numbers]
    consumer = AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        isolation_level="read_committed" if committed else "read_uncommitted",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_partition_fetch_bytes=_FETCH_BYTES,
    )
    give_up_at = asyncio.get_running_loop().time() + _DEADLINE_S
    await consumer.start()
    try:
        async with asyncio.timeout_at(give_up_at):
            consumer.assign(partitions)
            await consumer.seek_to_beginning(*partitions)
            ends = await consumer.end_offsets(partitions)
        while True:
            async with asyncio.timeout_at(give_up_at):
                if not [where for where in partitions if await consumer.position(where) < ends[where]]:
                    return
                batches = await consumer.getmany(timeout_ms=100)
            for records in batches.values():
                for record in records:
                    yield record
    finally:
        await consumer.stop()
