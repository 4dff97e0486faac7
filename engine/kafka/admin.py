"""Topics and their configs: list, describe, create, grow."""

from collections.abc import Sequence
from typing import Any

import msgspec
from aiokafka.protocol.admin import CreatePartitionsRequest, CreateTopicsRequest, DescribeConfigsRequest

from engine.errors import KafkaRefusal
from engine.kafka.cluster import ClusterClient
from engine.kafka.faults import NONE, TOPIC_ALREADY_EXISTS, error_name

_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
_TIMEOUT_MS = 30_000
_CHUNK = 200
"""Topics per DescribeConfigs, so that one answer stays small."""

TOPIC_OVERRIDE, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC_BROKER, DEFAULT = 1, 2, 3, 4, 5
"""Kafka's config sources (DescribeConfigsResponse.ConfigSource)."""


class ConfigEntry(msgspec.Struct, frozen=True):
    """One effective topic config: its value and where it comes from."""

    value: str
    source: int
    read_only: bool
    sensitive: bool


async def describe_topic_configs(client: ClusterClient, topics: Sequence[str]) -> dict[str, dict[str, ConfigEntry]]:
    """Return the effective configs of topics. Raises KafkaRefusal naming the topic."""
    found: dict[str, dict[str, ConfigEntry]] = {}
    for at in range(0, len(topics), _CHUNK):
        resources = [(_TOPIC_RESOURCE, topic, None) for topic in topics[at : at + _CHUNK]]
        answer = await (await client.any_connection()).call(DescribeConfigsRequest(resources))
        for code, message, _, topic, entries in answer.resources:
            if code != NONE:
                raise _refused(
                    f"configs of topic {topic} on cluster {client.alias!r}", code, message, "DescribeConfigs"
                )
            found[topic] = {
                name: ConfigEntry(value or "", source, read_only, sensitive)
                for name, value, read_only, source, sensitive, _ in entries
            }
    return found


async def shortest_expiry_s(client: ClusterClient) -> float | None:
    """Return after how many idle seconds the cluster forgets a producer, None where it does not let us ask.

    `transactional.id.expiration.ms` forgets the id at its coordinator, `producer.id.expiration.ms` at the partitions.
    """
    node = client.nodes[0]
    wanted = ["transactional.id.expiration.ms", "producer.id.expiration.ms"]
    answer = await (await client.control(node)).call(DescribeConfigsRequest([(_BROKER_RESOURCE, str(node), wanted)]))
    code, _, _, _, entries = answer.resources[0]
    values = [int(entry[1]) / 1000 for entry in entries if entry[1]] if code == NONE else []
    return min(values, default=None)


async def create_topic(
    client: ClusterClient,
    topic: str,
    partitions: int,
    replication_factor: int,
    configs: dict[str, str],
    *,
    validate_only: bool = False,
) -> bool:
    """Create a topic; False where it exists already. Raises KafkaRefusal with the broker's own words."""
    spec: tuple[Any, ...] = (topic, partitions, replication_factor, [], sorted(configs.items()))
    answer = await (await client.controller()).call(CreateTopicsRequest([spec], _TIMEOUT_MS, validate_only))
    _, code, message = answer.topic_errors[0]
    if code == TOPIC_ALREADY_EXISTS:
        return False
    if code != NONE:
        right = f"Create on topic {topic}, and a replication factor the cluster can hold (asked: {replication_factor})"
        raise _refused(f"creating topic {topic} on cluster {client.alias!r}", code, message, right)
    return True


async def grow_topic(client: ClusterClient, topic: str, partitions: int) -> None:
    """Give a topic more partitions. Raises KafkaRefusal."""
    request = CreatePartitionsRequest([(topic, (partitions, None))], _TIMEOUT_MS, False)
    answer = await (await client.controller()).call(request)
    _, code, message = answer.topic_errors[0]
    if code != NONE:
        raise _refused(f"adding partitions to topic {topic} on cluster {client.alias!r}", code, message, "Alter")


def _refused(asked: str, code: int, message: str | None, right: str) -> KafkaRefusal:
    name = error_name(code) + (f": {message}" if message else "")
    return KafkaRefusal(asked, code, name, f"needed: {right}")
