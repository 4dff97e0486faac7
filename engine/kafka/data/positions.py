"""Reads of a positions topic that go on without the partitions whose brokers are away."""

import asyncio

import msgspec

from engine.base.errors import BrokerUnreachable, ConnectionLost, OtherCluster
from engine.base.tasks import run_all
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.data.logs import read_topic

_AT_ONCE = 8
"""Partitions read side by side: one whose broker is away keeps few others waiting."""

Pairs = list[tuple[bytes | None, bytes | None]]


class PositionsRead(msgspec.Struct, frozen=True):
    """The records (key, value) of the partitions that answered, in log order, and whether all of them did."""

    records: Pairs
    complete: bool


async def read_positions(client: ClusterClient, topic: str) -> PositionsRead:
    """Read a positions topic as far as its brokers answer; nothing where the topic is not there yet.

    Raises ConnectionLost or BrokerUnreachable where no partition can be read, OtherCluster, KafkaRefusal.
    """
    described = (await client.metadata([topic])).topics.get(topic)
    if described is None or not described.partitions:
        return PositionsRead([], complete=True)
    try:
        return PositionsRead(await read_topic(client, topic), complete=True)
    except OtherCluster:
        raise
    except (BrokerUnreachable, ConnectionLost):
        return await _those_that_answer(client, topic, sorted(described.partitions))


async def _those_that_answer(client: ClusterClient, topic: str, partitions: list[int]) -> PositionsRead:
    found: dict[int, Pairs] = {}
    failures: list[BrokerUnreachable | ConnectionLost] = []
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def read(partition: int) -> None:
        async with at_once:
            try:
                found[partition] = await read_topic(client, topic, {partition})
            except OtherCluster:
                raise
            except (BrokerUnreachable, ConnectionLost) as failure:
                failures.append(failure)

    await run_all(*(read(partition) for partition in partitions))
    if not found:
        raise failures[0]
    records = [record for partition in partitions for record in found.get(partition, ())]
    return PositionsRead(records, complete=not failures)
