"""A small backlog in a cluster, and the settings of its mirror: for benches that do not measure the copy."""

from aiokafka import AIOKafkaProducer

from bench.admin import create_topic

ALONE = {"emit.heartbeats.enabled": "false", "heartbeats.replication.enabled": "false"}
"""Settings of a mirror that copies this topic and no other."""


async def make_topic(address: str, topic: str, partitions: int, records: int) -> None:
    """Create a topic with `records` short records in each partition. Raises BenchError."""
    await create_topic(address, topic, partitions)
    async with AIOKafkaProducer(bootstrap_servers=address, linger_ms=20) as producer:
        for number in range(records):
            for partition in range(partitions):
                await producer.send(topic, b"record %d" % number, partition=partition)
