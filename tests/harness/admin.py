"""Creates and deletes topics of a test through aiokafka's own admin client, without code of the mirror.

A broker learns of a change a moment after the controller's answer. So the functions return only when the running
brokers know it: until then a broker may report no topic, or the previous one of the same name.
"""

import functools
import glob
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from aiokafka import TopicPartition as KafkaPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code
from aiokafka.protocol.metadata import MetadataRequest

from deploy.local.cluster import EmbeddedCluster
from tests.harness.eventually import until, until_equal

_OWN = 1
"""DYNAMIC_TOPIC_CONFIG (DescribeConfigsResponse.ConfigSource)."""


@asynccontextmanager
async def admin(cluster: EmbeddedCluster) -> AsyncIterator[Any]:
    """Open an admin client."""
    client = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


async def create_topics(
    cluster: EmbeddedCluster, topics: Mapping[str, int], *, replicas: int = 1, configs: Mapping[str, str] | None = None
) -> None:
    """Create topics by name and partition count; raises aiokafka's error of the first that fails."""
    await _create(
        cluster,
        [NewTopic(name, count, replicas, topic_configs=dict(configs or {})) for name, count in topics.items()],
    )


async def _create(cluster: EmbeddedCluster, new: list[NewTopic]) -> None:
    async with admin(cluster) as client:
        answer = await client.create_topics(new)
        for _, code, message in answer.topic_errors:
            if code:
                raise for_code(code)(message)
        for broker in cluster.brokers:
            if broker.pid is not None:
                await until_equal(functools.partial(_unheard, client, broker.node_id, new), list[str]())


async def _unheard(client: Any, node_id: int, new: list[NewTopic]) -> list[str]:
    """Ask a broker for topics; return those that it does not know with all their leaders."""
    answer = await client._send_request_to_node(node_id, _about([one.name for one in new]))
    led = {
        one["topic"]: sum(partition["leader"] >= 0 for partition in one["partitions"])
        for one in answer.to_object()["topics"]
    }
    return [one.name for one in new if led.get(one.name, 0) < one.num_partitions]


def _about(topics: list[str]) -> MetadataRequest:
    """Ask for topics without making them: by default the question makes what is not there."""
    return MetadataRequest(topics, allow_auto_topic_creation=False)


async def partition_count(cluster: EmbeddedCluster, topic: str) -> int:
    """Return how many partitions a topic has; 0 where there is none."""
    async with admin(cluster) as client:
        answer = await client._send_request(_about([topic]))
    (described,) = answer.to_object()["topics"]
    return len(described["partitions"])


async def delete_topic(cluster: EmbeddedCluster, topic: str) -> None:
    """Delete a topic; somebody else may have made it anew when this returns."""
    before = _folders(cluster, topic)
    async with admin(cluster) as client:
        answer = await client.delete_topics([topic])
    for _, code in answer.topic_error_codes:
        if code:
            raise for_code(code)(topic)
    await until(lambda: not before & _folders(cluster, topic), f"the brokers have heard that {topic} is deleted")


def _folders(cluster: EmbeddedCluster, topic: str) -> set[tuple[Path, int]]:
    """List where brokers that run keep a topic's partitions: path and inode, which a topic made anew has not."""
    found = set()
    for broker in cluster.brokers:
        for path in broker.data_folder.glob(f"{glob.escape(topic)}-*") if broker.pid is not None else ():
            if path.name.removeprefix(f"{topic}-").isdecimal():
                with suppress(FileNotFoundError):
                    found.add((path, path.stat().st_ino))
    return found


async def create_each(cluster: EmbeddedCluster, topics: Mapping[str, Mapping[str, str]]) -> None:
    """Create topics of one partition, each with configs of its own; raises aiokafka's error of the first that fails."""
    await _create(cluster, [NewTopic(name, 1, 1, topic_configs=dict(configs)) for name, configs in topics.items()])


async def own_configs(cluster: EmbeddedCluster, topics: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return what was set for topics alone."""
    return {
        topic: {name: value for name, value, _, source, *_ in entries if source == _OWN}
        for topic, entries in (await _described(cluster, topics)).items()
    }


async def all_configs(cluster: EmbeddedCluster, topic: str) -> dict[str, str]:
    """Return every config that the broker tells of a topic, with its value in effect."""
    return {name: value or "" for name, value, *_ in (await _described(cluster, [topic]))[topic]}


async def _described(cluster: EmbeddedCluster, topics: Iterable[str]) -> dict[str, list[Any]]:
    async with admin(cluster) as client:
        answers = await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name) for name in topics])
    found: dict[str, list[Any]] = {}
    for answer in answers:
        for code, message, _, topic, entries in answer.resources:
            if code:
                raise for_code(code)(message)
            found[topic] = entries
    return found


async def set_configs(cluster: EmbeddedCluster, topic: str, configs: Mapping[str, str]) -> None:
    """Make these the topic's own configs, instead of all it had."""
    await set_each(cluster, {topic: configs})


async def set_each(cluster: EmbeddedCluster, topics: Mapping[str, Mapping[str, str]]) -> None:
    """Make these the own configs of topics, instead of all they had; raises aiokafka's error of the first refusal."""
    resources = [ConfigResource(ConfigResourceType.TOPIC, name, dict(configs)) for name, configs in topics.items()]
    async with admin(cluster) as client:
        answers = await client.alter_configs(resources)
    for answer in answers:
        for code, message, *_ in answer.resources:
            if code:
                raise for_code(code)(message)


async def delete_records(cluster: EmbeddedCluster, topic: str, before: Mapping[int, int]) -> None:
    """Move the log start of partitions up to an offset, as retention would."""
    wanted = {KafkaPartition(topic, number): RecordsToDelete(offset) for number, offset in before.items()}
    async with admin(cluster) as client:
        await client.delete_records(wanted)
