"""Creates and deletes topics on a bench's clusters."""

import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from bench.errors import BenchError

_PATIENCE_MS = 120_000
"""Creating thousands of partitions keeps a broker busy for longer than the client's default of 40 s."""


@contextlib.asynccontextmanager
async def admin(address: str) -> AsyncIterator[Any]:
    """Open an admin client that connects to a cluster directly."""
    client = AIOKafkaAdminClient(bootstrap_servers=address, request_timeout_ms=_PATIENCE_MS)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


async def create_topic(
    address: str, topic: str, partitions: int, configs: Mapping[str, str] | None = None, *, replicas: int = 1
) -> None:
    """Create a topic; raises BenchError if the cluster refuses."""
    new = NewTopic(topic, partitions, replicas, topic_configs=dict(configs or {}))
    async with admin(address) as client:
        answer = await client.create_topics([new])
    for name, code, *rest in answer.topic_errors:
        if code:
            raise BenchError("dataset", f"topic {name} not created: error {code} {rest}")


async def set_configs(client: Any, topics: Iterable[str], configs: Mapping[str, str]) -> None:
    """Replace all configs of the topics by these; raises BenchError if the cluster refuses."""
    wanted = [ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs)) for topic in topics]
    for answer in await client.alter_configs(wanted):
        for code, message, _, topic in answer.resources:
            if code:
                raise BenchError("dataset", f"topic {topic} not changed: error {code} {message}")


async def topic_names(address: str) -> list[str]:
    """Name all topics."""
    async with admin(address) as client:
        return list(await client.list_topics())


async def delete_topics(address: str, *, containing: str) -> None:
    """Delete every topic whose name holds this text; raises BenchError if the cluster refuses."""
    if doomed := [name for name in await topic_names(address) if containing in name]:
        await delete_topic(address, *doomed)


async def delete_topic(address: str, *topics: str) -> None:
    """Delete topics by name; raises BenchError if the cluster refuses."""
    async with admin(address) as client:
        answer = await client.delete_topics(list(topics))
    for name, code in answer.topic_error_codes:
        if code:
            raise BenchError("dataset", f"topic {name} not deleted: error {code}")
