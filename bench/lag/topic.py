"""The lag topic, read whole."""

from aiokafka import AIOKafkaConsumer, TopicPartition

Record = tuple[int, bytes, bytes]
"""Unix ms at which it was written, key, value."""


async def read_topic(servers: str, topic: str) -> list[Record]:
    """Read the one partition of a topic, from its beginning to its present end."""
    # By its default it would go to the end, and a `seek_to_beginning` meets that answer on its way: nothing was read.
    consumer = AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest", enable_auto_commit=False)
    await consumer.start()
    try:
        where = TopicPartition(topic, 0)
        consumer.assign([where])
        end = (await consumer.end_offsets([where]))[where]
        found: list[Record] = []
        while await consumer.position(where) < end:
            for one in (await consumer.getmany(where, timeout_ms=1000)).get(where, []):
                found.append((one.timestamp, one.key or b"", one.value or b""))
        return found
    finally:
        await consumer.stop()
