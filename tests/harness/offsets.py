"""Reads at which offsets the records of a topic are."""

import asyncio

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition

from deploy.local.cluster import EmbeddedCluster
from engine.flow.ports.ports import LATEST
from engine.kafka.gateway import KafkaCluster
from policies.model import TopicPartition
from tests.harness.mirror import cluster_client


async def places(cluster: EmbeddedCluster, topic: str) -> dict[bytes, int]:
    """Read a topic of one partition with aiokafka's consumer: offset by value, of the committed records.

    To its high watermark: right behind a commit its marker may not be there yet, and the consumer would end before it.
    """
    client = cluster_client("ends", cluster.bootstrap_servers)
    await client.open()
    try:
        end = (await KafkaCluster(client).offsets([TopicPartition(topic, 0)], LATEST))[TopicPartition(topic, 0)]
    finally:
        await client.close()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    try:
        partition = KafkaPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        found: dict[bytes, int] = {}
        async with asyncio.timeout(120):
            while await consumer.position(partition) < end:
                for one in (await consumer.getmany(timeout_ms=100)).get(partition, []):
                    found[one.value] = one.offset
        return found
    finally:
        await consumer.stop()
