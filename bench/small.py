"""A small backlog in an embedded cluster, and a mirror of it: for benches of what is not the copying."""

from pathlib import Path

from aiokafka import AIOKafkaProducer

from bench.admin import create_topic
from bench.dataset import Backlog
from bench.systems.launch import Job
from deploy.local.cluster import EmbeddedCluster

ALONE = {"emit.heartbeats.enabled": "false", "heartbeats.replication.enabled": "false"}
"""Settings of a mirror that copies this topic and no other."""


async def make_topic(address: str, topic: str, partitions: int, records: int) -> None:
    """Make a topic with so many short records in each partition. Raises BenchError."""
    await create_topic(address, topic, partitions)
    async with AIOKafkaProducer(bootstrap_servers=address, linger_ms=20) as producer:
        for number in range(records):
            for partition in range(partitions):
                await producer.send(topic, b"record %d" % number, partition=partition)


def job_of(
    alias: str,
    topic: str,
    partitions: int,
    records: int,
    source: EmbeddedCluster,
    target: EmbeddedCluster,
    folder: Path,
) -> Job:
    """Give the copy of such a topic by a mirror with a folder of its own, which is made."""
    counts = (records,) * partitions
    backlog = Backlog(payload="", codec="none", topic=topic, counts=counts, batches=partitions, wire_bytes=0)
    job = Job(
        backlog=backlog,
        source=source.bootstrap_servers,
        target=target.bootstrap_servers,
        alias=alias,
        folder=folder / alias,
    )
    job.folder.mkdir()
    return job
