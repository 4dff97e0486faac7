"""Reads a whole partition by a stock client, for benches that compare records."""

from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition


async def read_partition(
    address: str, topic: str, partition: int = 0, *, first: int = 0, isolation_level: str = "read_uncommitted"
) -> list[Any]:
    """Read a partition from its start, or from offset `first`, to its present end, as aiokafka's ConsumerRecords."""
    # By default the consumer would go to the end, and a late answer about that would override `seek_to_beginning`.
    consumer = AIOKafkaConsumer(
        bootstrap_servers=address,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level=isolation_level,
    )
    await consumer.start()
    try:
        where = TopicPartition(topic, partition)
        consumer.assign([where])
        if first:
            consumer.seek(where, first)
        end = (await consumer.end_offsets([where]))[where]
        found: list[Any] = []
        while await consumer.position(where) < end:
            found += (await consumer.getmany(where, timeout_ms=200)).get(where, ())
        return found
    finally:
        await consumer.stop()
