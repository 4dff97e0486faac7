"""Breaks the source's offsets: transactions without records, whose markers take an offset in every partition.

A lane must store its position durably before it appends the records behind such a break.
"""

import asyncio
import time
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from bench.errors import BenchError
from bench.recovery.scene import Scene

EVERY_S = 1.0


def break_runs(scene: Scene, seconds: float) -> int:
    """Break the offsets of every partition of the topic once a second for a while; return how often.

    Raises BenchError if the source refuses, or the load ends during this time.
    """
    try:
        broken = asyncio.run(_break(scene, seconds))
    except KafkaError as error:
        raise BenchError("breaks", f"the source takes no transactions: {error!r}") from error
    scene.blanks += broken
    return broken


async def _break(scene: Scene, seconds: float) -> int:
    producer: Any = AIOKafkaProducer(
        bootstrap_servers=scene.stage.source.bootstrap_servers, transactional_id=f"{scene.topic}-{time.time_ns()}"
    )
    await producer.start()
    try:
        broken, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            scene.load.require_running()
            async with producer.transaction():
                for partition in range(scene.partitions):
                    # aiokafka's own API adds a partition only with its first record.
                    producer._txn_manager.maybe_add_partition_to_txn(TopicPartition(scene.topic, partition))
            broken += 1
            await asyncio.sleep(EVERY_S)
    finally:
        await producer.stop()
    return broken
