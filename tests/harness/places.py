"""Where records lie on both sides, read by stock consumers: what a translated offset is held against."""

import asyncio
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition

from deploy.local.cluster import Cluster
from engine.core.mm2_records import Checkpoint, decode_checkpoint
from tests.harness.admin import partition_count

_DEADLINE_S = 120.0


class Place(NamedTuple):
    """One record: its offset, and what tells it apart from all others."""

    offset: int
    record: tuple[bytes | None, bytes | None, int]


async def read_places(cluster: Cluster, topic: str) -> dict[int, list[Place]]:
    """Read every committed record of a topic, in offset order; raises TimeoutError."""
    numbers = range(await partition_count(cluster, topic))
    async with asyncio.timeout(_DEADLINE_S):
        return {number: await _read(cluster, KafkaPartition(topic, number)) for number in numbers}


async def _read(cluster: Cluster, where: KafkaPartition) -> list[Place]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, isolation_level="read_committed", enable_auto_commit=False
    )
    await consumer.start()
    found: list[Place] = []
    try:
        consumer.assign([where])
        await consumer.seek_to_beginning(where)
        end = (await consumer.end_offsets([where]))[where]
        while await consumer.position(where) < end:
            for one in (await consumer.getmany(where, timeout_ms=100)).get(where, ()):
                found.append(Place(one.offset, (one.key, one.value, one.timestamp)))
    finally:
        await consumer.stop()
    return found


def next_at(places: list[Place], offset: int) -> Place | None:
    """Give the first record at or behind an offset, None at the end."""
    return next((place for place in places if place.offset >= offset), None)


def same_place(source: list[Place], source_offset: int, target: list[Place], target_offset: int) -> bool:
    """Whether a consumer at either offset reads the same record next, or nothing."""
    here, there = next_at(source, source_offset), next_at(target, target_offset)
    return (here and here.record) == (there and there.record)


async def every_checkpoint(cluster: Cluster, topic: str, group: str | None = None) -> list[Checkpoint]:
    """Read all checkpoints that were ever written (of one group), older ones too, in the order of the log."""
    consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, enable_auto_commit=False)
    await consumer.start()
    found: list[Checkpoint] = []
    where = KafkaPartition(topic, 0)
    try:
        if topic not in await consumer.topics():
            return []
        consumer.assign([where])
        await consumer.seek_to_beginning(where)
        end = (await consumer.end_offsets([where]))[where]
        async with asyncio.timeout(_DEADLINE_S):
            while await consumer.position(where) < end:
                for one in (await consumer.getmany(where, timeout_ms=100)).get(where, ()):
                    found.append(decode_checkpoint(one.key, one.value))
    finally:
        await consumer.stop()
    return [one for one in found if group is None or one.group == group]
