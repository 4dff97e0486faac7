"""Reads the disks of brokers: sizes of partitions and free bytes (DescribeLogDirs v4, KIP-827: since Kafka 3.3)."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.base.tasks import run_all
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.protocol.faults import NONE
from engine.kafka.protocol.requests import DescribeLogDirs
from policies.model import TopicPartition

_BROKER_S = 5.0
"""Most seconds to wait for one broker of many."""


async def sizes(client: ClusterClient, topics: Mapping[str, int]) -> dict[TopicPartition, int]:
    """Return the bytes of each partition's largest replica, as far as brokers answer; `topics` has partition counts."""
    found: dict[TopicPartition, int] = {}
    for dirs in (await _ask(client, topics)).values():
        for topic, partition, size in _replicas(dirs):
            place = TopicPartition(topic, partition)
            found[place] = max(size, found.get(place, 0))
    return found


async def room(client: ClusterClient) -> int | None:
    """Return the free bytes of all brokers together; None if some broker does not report them."""
    told = await _ask(client, {})
    if not told or not told.keys() >= set(client.nodes):
        return None
    free = 0
    for dirs in told.values():
        # Log directories on the same volume report the same total and free bytes.
        volumes = {(one[3], one[4]) for one in dirs if one[0] == NONE}
        if not volumes or any(usable < 0 for _, usable in volumes):
            return None
        free += sum(usable for _, usable in volumes)
    return free


def _replicas(dirs: list[Any]) -> Iterator[tuple[str, int, int]]:
    for _, _, topics, *_ in dirs:
        for name, partitions, _ in topics:
            for partition, size, _, is_future, _ in partitions:
                if not is_future:
                    yield name, partition, size


async def _ask(client: ClusterClient, topics: Mapping[str, int]) -> dict[int, list[Any]]:
    """Ask all brokers; leave out those that do not answer, are too old, or deny it (needs Describe on the cluster)."""
    found: dict[int, list[Any]] = {}

    async def ask(node: int) -> None:
        with suppress(TimeoutError, ConnectionLost, BrokerUnreachable):
            async with asyncio.timeout(_BROKER_S):
                connection = await client.control(node)
                if not DescribeLogDirs.spoken_by(connection):
                    return
                answer = await connection.call(DescribeLogDirs(topics))
                if answer.error_code == NONE:
                    found[node] = answer.results

    await run_all(*map(ask, client.nodes))
    return found
