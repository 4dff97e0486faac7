"""Topics of a test, through aiokafka's own admin client: no code of the mirror's is used to set the stage."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import TopicPartition as KafkaPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code

from deploy.local.cluster import Cluster

_OWN = 1
"""DYNAMIC_TOPIC_CONFIG (DescribeConfigsResponse.ConfigSource)."""


@asynccontextmanager
async def admin(cluster: Cluster) -> AsyncIterator[Any]:
    """Open an admin client."""
    client = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


async def create_topics(
    cluster: Cluster, topics: Mapping[str, int], *, replicas: int = 1, configs: Mapping[str, str] | None = None
) -> None:
    """Create topics by name and partition count; raises aiokafka's error of the first that fails."""
    new = [NewTopic(name, count, replicas, topic_configs=dict(configs or {})) for name, count in topics.items()]
    async with admin(cluster) as client:
        answer = await client.create_topics(new)
    for _, code, message in answer.topic_errors:
        if code:
            raise for_code(code)(message)


async def partition_count(cluster: Cluster, topic: str) -> int:
    """Return how many partitions a topic has."""
    async with admin(cluster) as client:
        (described,) = await client.describe_topics([topic])
    return len(described["partitions"])


async def delete_topic(cluster: Cluster, topic: str) -> None:
    """Delete a topic."""
    async with admin(cluster) as client:
        answer = await client.delete_topics([topic])
    for _, code in answer.topic_error_codes:
        if code:
            raise for_code(code)(topic)


async def create_each(cluster: Cluster, topics: Mapping[str, Mapping[str, str]]) -> None:
    """Create topics of one partition, each with configs of its own; raises aiokafka's error of the first that fails."""
    new = [NewTopic(name, 1, 1, topic_configs=dict(configs)) for name, configs in topics.items()]
    async with admin(cluster) as client:
        answer = await client.create_topics(new)
    for _, code, message in answer.topic_errors:
        if code:
            raise for_code(code)(message)


async def own_configs(cluster: Cluster, topics: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return what was set for topics alone."""
    return {
        topic: {name: value for name, value, _, source, *_ in entries if source == _OWN}
        for topic, entries in (await _described(cluster, topics)).items()
    }


async def all_configs(cluster: Cluster, topic: str) -> dict[str, str]:
    """Return every config that the broker tells of a topic, with its value in effect."""
    return {name: value or "" for name, value, *_ in (await _described(cluster, [topic]))[topic]}


async def _described(cluster: Cluster, topics: Iterable[str]) -> dict[str, list[Any]]:
    async with admin(cluster) as client:
        answers = await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name) for name in topics])
    found: dict[str, list[Any]] = {}
    for answer in answers:
        for code, message, _, topic, entries in answer.resources:
            if code:
                raise for_code(code)(message)
            found[topic] = entries
    return found


async def set_configs(cluster: Cluster, topic: str, configs: Mapping[str, str]) -> None:
    """Make these the topic's own configs, instead of all it had."""
    await set_each(cluster, {topic: configs})


async def set_each(cluster: Cluster, topics: Mapping[str, Mapping[str, str]]) -> None:
    """Make these the own configs of topics, instead of all they had; raises aiokafka's error of the first refusal."""
    resources = [ConfigResource(ConfigResourceType.TOPIC, name, dict(configs)) for name, configs in topics.items()]
    async with admin(cluster) as client:
        answers = await client.alter_configs(resources)
    for answer in answers:
        for code, message, *_ in answer.resources:
            if code:
                raise for_code(code)(message)


async def delete_records(cluster: Cluster, topic: str, before: Mapping[int, int]) -> None:
    """Move the log start of partitions up to an offset, as retention would."""
    wanted = {KafkaPartition(topic, number): RecordsToDelete(offset) for number, offset in before.items()}
    async with admin(cluster) as client:
        await client.delete_records(wanted)
