"""Reads a positions topic without the partitions whose brokers are unreachable."""

import msgspec

from engine.base.errors import BrokerUnreachable, ConnectionLost, OtherCluster
from engine.flow.lane.those_that_answer import read_those_that_answer
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.data.logs import read_topic

Pairs = list[tuple[bytes | None, bytes | None]]


class PositionsRead(msgspec.Struct, frozen=True):
    """The records (key, value) of the partitions that answered, in log order, and whether all of them did."""

    records: Pairs
    complete: bool


async def read_positions(client: ClusterClient, topic: str) -> PositionsRead:
    """Read a positions topic as far as its brokers answer; no records if the topic does not exist yet.

    Raises ConnectionLost or BrokerUnreachable if no partition can be read, OtherCluster, KafkaRefusal.
    """
    described = (await client.metadata([topic])).topics.get(topic)
    if described is None or not described.partitions:
        return PositionsRead([], complete=True)
    try:
        return PositionsRead(await read_topic(client, topic), complete=True)
    except OtherCluster:
        raise
    except (BrokerUnreachable, ConnectionLost):
        records, failed = await read_those_that_answer(
            lambda partition: read_topic(client, topic, {partition}), sorted(described.partitions)
        )
        return PositionsRead(records, complete=not failed)
