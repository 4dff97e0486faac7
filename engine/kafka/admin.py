"""Topics and their configs: list, describe, create, grow."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from aiokafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
)

from engine.errors import KafkaRefusal
from engine.kafka import admin_codec as codec
from engine.kafka.cluster import ClusterClient
from engine.kafka.faults import NONE, TOPIC_ALREADY_EXISTS, UNKNOWN_TOPIC_OR_PARTITION, error_name
from policies.topic_configs import ConfigEntry

_BROKER_RESOURCE = 4
_TIMEOUT_MS = 30_000
_TIMEOUT_S = 60.0
_CHUNK = 1_000
"""Topics per DescribeConfigs: an answer of some 2 MB, and few round trips to a cluster that is far away."""


class ConfigsOf:
    """Describes configs of a cluster's topics again and again; entries that were met are the same objects."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._reader = codec.ConfigsReader()

    async def describe(self, topics: Sequence[str]) -> AsyncIterator[codec.Described]:
        """Give the effective configs of each topic, or why there are none."""
        for at in range(0, len(topics), _CHUNK):
            body = codec.describe_configs(topics[at : at + _CHUNK])
            connection = await self._client.any_connection()
            answer = await connection.request(*codec.DESCRIBE_CONFIGS, False, [body], _TIMEOUT_S)
            for described in self._reader.read(bytes(answer)):
                yield described


async def describe_topic_configs(client: ClusterClient, topics: Sequence[str]) -> dict[str, dict[str, ConfigEntry]]:
    """Return the effective configs of topics. Raises KafkaRefusal naming the topic."""
    found: dict[str, dict[str, ConfigEntry]] = {}
    async for one in ConfigsOf(client).describe(topics):
        if one.error_code != NONE:
            asked = f"configs of topic {one.topic} on cluster {client.alias!r}"
            raise _refused(asked, one.error_code, one.message, "DescribeConfigs")
        found[one.topic] = one.configs
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


async def delete_topic(client: ClusterClient, topic: str) -> None:
    """Delete a topic; one that is not there is no error. Raises KafkaRefusal."""
    answer = await (await client.controller()).call(DeleteTopicsRequest([topic], _TIMEOUT_MS))
    _, code = answer.topic_error_codes[0]
    if code not in (NONE, UNKNOWN_TOPIC_OR_PARTITION):
        raise _refused(f"deleting topic {topic} on cluster {client.alias!r}", code, None, f"Delete on topic {topic}")


async def grow_topic(client: ClusterClient, topic: str, partitions: int) -> None:
    """Give a topic more partitions. Raises KafkaRefusal."""
    request = CreatePartitionsRequest([(topic, (partitions, None))], _TIMEOUT_MS, False)
    answer = await (await client.controller()).call(request)
    _, code, message = answer.topic_errors[0]
    if code != NONE:
        raise _refused(f"adding partitions to topic {topic} on cluster {client.alias!r}", code, message, "Alter")


def refusal_text(code: int, message: str | None) -> str:
    """Return Kafka's name of an error, with the broker's own words where it has some."""
    return error_name(code) + (f": {message}" if message else "")


def _refused(asked: str, code: int, message: str | None, right: str) -> KafkaRefusal:
    return KafkaRefusal(asked, code, refusal_text(code, message), f"needed: {right}")
