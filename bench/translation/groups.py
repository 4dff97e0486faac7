"""Groups with committed offsets, and the checkpoints that each system writes for them."""

import asyncio
import random
from collections.abc import Mapping

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition

from bench.admin import topic_names
from bench.reading import read_partition
from engine.core.mm2.mm2_records import decode_checkpoint

_AT_ONCE = 16
Place = tuple[str, str, int]
"""(group, topic, partition)"""
Commits = Mapping[Place, int]


def random_commits(groups: int, ends: Mapping[tuple[str, int], int], seed: int = 5) -> dict[Place, int]:
    """Give every group two partitions and an offset in each: lags from nothing to the whole log."""
    rng = random.Random(seed)
    places = sorted(ends)
    found: dict[Place, int] = {}
    for number in range(groups):
        for topic, partition in rng.sample(places, min(2, len(places))):
            end = ends[topic, partition]
            lag = int(end ** rng.random()) if rng.random() > 0.05 else 0
            found[f"group-{number:04d}", topic, partition] = max(0, end - lag)
    return found


async def commit(address: str, commits: Commits) -> None:
    """Commit for every group through its own stock consumer."""
    by_group: dict[str, dict[TopicPartition, int]] = {}
    for (group, topic, partition), offset in commits.items():
        by_group.setdefault(group, {})[TopicPartition(topic, partition)] = offset
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def one(group: str, offsets: dict[TopicPartition, int]) -> None:
        async with at_once:
            consumer = AIOKafkaConsumer(bootstrap_servers=address, group_id=group, enable_auto_commit=False)
            await consumer.start()
            try:
                consumer.assign(list(offsets))
                await consumer.commit(offsets)
            finally:
                await consumer.stop()

    async with asyncio.TaskGroup() as tasks:
        for group, offsets in by_group.items():
            tasks.create_task(one(group, offsets))


class Found(msgspec.Struct, frozen=True):
    """The last checkpoint: offset on the source, offset on the target."""

    source: int
    target: int


async def read_checkpoints(address: str, alias: str) -> dict[Place, Found]:
    """Read a flow's checkpoints, the last of each kept; topics named as on the source. Empty if there are none."""
    checkpoints = f"{alias}.checkpoints.internal"
    if checkpoints not in await topic_names(address):
        return {}
    found: dict[Place, Found] = {}
    for one in await read_partition(address, checkpoints):
        told = decode_checkpoint(one.key, one.value)
        topic = told.topic.removeprefix(f"{alias}.")
        found[told.group, topic, told.partition] = Found(told.source_offset, told.target_offset)
    return found
