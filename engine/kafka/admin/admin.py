"""Describes configs of topics and brokers; creates, grows and deletes topics."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any
from uuid import UUID

from aiokafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
)
from aiokafka.protocol.api import Request

from engine.base.clock import pause
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.base.parts import parts
from engine.base.tasks import run_all
from engine.flow.ports.settings_port import REQUESTS_AT_ONCE, TOPICS_AT_ONCE
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.protocol import admin_codec as codec
from engine.kafka.protocol.faults import (
    AUTHORIZATION,
    NONE,
    THROTTLING_QUOTA_EXCEEDED,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_VERSION,
    error_name,
)
from engine.kafka.protocol.readable import readable
from engine.kafka.protocol.requests import DeleteTopicById
from policies.sync.acl_sync import Operation
from policies.sync.creation import Create
from policies.sync.topic_configs import ConfigEntry

_BROKER_RESOURCE = 4
_INVALID_REPLICATION_FACTOR = 38
_TIMEOUT_S = 60.0
_BROKER_S = 5.0
"""Most seconds to wait for one broker of many."""
_BEYOND_S = 15.0
"""Most seconds for the answer after the time that a cluster has: ZooKeeper's controller begins to count that time when
it has written all topics of a request (ZkAdminManager.createTopics).
"""
_LONG_THROTTLE_S = 5.0
"""Seconds that a throttled broker may let the next request wait."""
_USED_UP = (
    "the quota controller_mutation_rate of raymirror is used up; raymirror asks again when the cluster permits it"
)
_EXPIRIES = ["producer.id.expiration.ms", "transactional.id.expiration.ms"]


class ConfigsOf:
    """Describes configs of a cluster's topics repeatedly; equal entries are the same objects."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._reader = codec.ConfigsReader()
        self._busy: set[int] = set()
        """The turns (`nth_connection`) whose connections wait for an answer."""

    async def describe(self, topics: Mapping[str, tuple[str, ...] | None]) -> list[codec.Described]:
        """Return the effective configs of each topic, all (None) or some, or the error instead, in any order."""
        waiting = parts(list(topics.items()), TOPICS_AT_ONCE)
        found: list[codec.Described] = []

        async def ask() -> None:
            for part in waiting:  # each takes the next
                found.extend(await self._ask(dict(part)))

        await run_all(*(ask() for _ in range(min(REQUESTS_AT_ONCE, -(-len(topics) // TOPICS_AT_ONCE)))))
        return found

    async def _ask(self, part: Mapping[str, tuple[str, ...] | None]) -> list[codec.Described]:
        """Ask over a free connection: a broker answers one request per connection at a time."""
        turn = next(turn for turn in count() if turn not in self._busy)
        self._busy.add(turn)
        try:
            connection = await self._client.nth_connection(turn)
            if not connection.supports(*codec.DESCRIBE_CONFIGS):
                asked = f"configs of topics on cluster {self._client.alias!r}"
                name = error_name(UNSUPPORTED_VERSION)
                raise KafkaRefusal(asked, UNSUPPORTED_VERSION, name, "needed: brokers that answer DescribeConfigs")
            answer = await connection.request(
                *codec.DESCRIBE_CONFIGS, False, [codec.describe_configs(part)], _TIMEOUT_S
            )
            with readable(connection.address):
                return self._reader.read(bytes(answer))
        finally:
            self._busy.remove(turn)


async def describe_topic_configs(
    client: ClusterClient, topics: Sequence[str], names: Sequence[str] = ()
) -> dict[str, dict[str, ConfigEntry]]:
    """Return the effective configs of topics, some by name or all. Raises KafkaRefusal naming the topic."""
    found: dict[str, dict[str, ConfigEntry]] = {}
    for topic, configs in (await describe_each(client, topics, names)).items():
        if isinstance(configs, KafkaRefusal):
            raise configs
        found[topic] = configs
    return found


async def describe_each(
    client: ClusterClient, topics: Sequence[str], names: Sequence[str] = ()
) -> dict[str, dict[str, ConfigEntry] | KafkaRefusal]:
    """Return the effective configs of each topic, some by name or all, or why they are refused."""
    found: dict[str, dict[str, ConfigEntry] | KafkaRefusal] = {}
    for one in await ConfigsOf(client).describe(dict.fromkeys(topics, tuple(names) or None)):
        asked = f"configs of topic {one.topic} on cluster {client.alias!r}"
        found[one.topic] = (
            one.configs
            if one.error_code == NONE
            else _refused(client, asked, (one.error_code, one.message), Operation.DESCRIBE_CONFIGS, one.topic)
        )
    return found


async def shortest_expiry_s(client: ClusterClient) -> float | None:
    """Return after how many idle seconds the cluster forgets a producer; None if asking is not permitted.

    After `transactional.id.expiration.ms` the coordinator forgets the id, after `producer.id.expiration.ms` the
    partitions do. The shortest value of any broker counts. Raises BrokerUnreachable, ConnectionLost if none answers.
    """
    told = await broker_configs(client, _EXPIRIES)
    return min((int(value) / 1000 for configs in told.values() for value in configs.values()), default=None)


async def broker_configs(client: ClusterClient, names: Sequence[str]) -> dict[int, dict[str, str]]:
    """Return the values of some configs of every broker that answers; no values if a broker does not permit it.

    Each broker knows only its own configs. Raises BrokerUnreachable, ConnectionLost if no broker answers.
    """
    found, failed = await _each_broker(client, names)
    if failed and not found:
        raise failed[0]
    return found


async def _each_broker(
    client: ClusterClient, names: Sequence[str], within_s: float | None = None
) -> tuple[dict[int, dict[str, str]], list[BrokerUnreachable | ConnectionLost]]:
    """Return the values by broker, and the failures of the others; `within_s` limits each broker (None: no limit)."""
    found: dict[int, dict[str, str]] = {}
    failed: list[BrokerUnreachable | ConnectionLost] = []

    async def ask(node: int) -> None:
        try:
            async with asyncio.timeout(within_s):
                found[node] = await configs_of(client, node, names)
        except TimeoutError:
            failed.append(BrokerUnreachable(f"broker {node}", "no answer in time"))
        except (BrokerUnreachable, ConnectionLost) as failure:
            failed.append(failure)

    await run_all(*map(ask, client.nodes))
    return found, failed


async def configs_of(client: ClusterClient, node: int, names: Sequence[str]) -> dict[str, str]:
    """Return the values of some configs of one broker; no values if it does not permit that, or cannot."""
    try:
        answer = await (await client.control(node)).call(
            DescribeConfigsRequest([(_BROKER_RESOURCE, str(node), list(names))])
        )
    except KafkaRefusal:  # the broker does not offer the request
        return {}
    code, _, _, _, entries = answer.resources[0]
    return {entry[0]: entry[1] for entry in entries if entry[1]} if code == NONE else {}


async def producer_expiries_s(client: ClusterClient) -> dict[int, float | None]:
    """Return after how many seconds each broker forgets a producer; None if it does not permit asking.

    `producer.id.expiration.ms` may differ by broker (KIP-854: it is dynamic). Brokers before 3.4 lack it, and forget
    producers after `transactional.id.expiration.ms`. A broker that does not answer within 5 s is left out.
    """
    told, _ = await _each_broker(client, _EXPIRIES, _BROKER_S)
    return {
        node: next((int(values[name]) / 1000 for name in _EXPIRIES if name in values), None)
        for node, values in told.items()
    }


async def create_topic(
    client: ClusterClient,
    topic: str,
    partitions: int,
    replication_factor: int,
    configs: dict[str, str],
    *,
    key: str = "replication.factor",
) -> bool:
    """Create a topic; return False if it exists. `key` is the setting of its replication factor.

    Raises KafkaRefusal with the broker's message.
    """
    new = {topic: Create(partitions, replication_factor, configs)}
    made = (await create_topics(client, new, key=key, waits=True))[topic]
    if isinstance(made, KafkaRefusal):
        raise made
    return made


async def create_topics(
    client: ClusterClient, new: Mapping[str, Create], *, key: str = "replication.factor", waits: bool = False
) -> dict[str, bool | KafkaRefusal]:
    """Create topics by one request; return for each whether it was made (False: it exists), or why it is refused.

    `key` is the setting of their replication factor. `waits`: for a quota that is used up, for some seconds.
    """
    specs: list[tuple[Any, ...]] = [
        (topic, one.partitions, one.replication_factor, [], sorted(one.configs.items())) for topic, one in new.items()
    ]
    try:
        answer = await _ordered(client, lambda most_ms: CreateTopicsRequest(specs, most_ms, False), waits=waits)
    except KafkaRefusal as refusal:
        if refusal.code != THROTTLING_QUOTA_EXCEEDED:
            raise
        return dict.fromkeys(new, refusal)
    answers = {topic: (code, message) for topic, code, message in answer.topic_errors}
    found: dict[str, bool | KafkaRefusal] = {}
    for topic, one in new.items():
        code, message = answers.get(topic, (UNKNOWN_SERVER_ERROR, "the answer leaves it out"))
        if code in (NONE, TOPIC_ALREADY_EXISTS):
            found[topic] = code == NONE
            continue
        asked = f"creating topic {topic} on cluster {client.alias!r}"
        right = _right_to_create(client, topic, code, one.replication_factor, key)
        found[topic] = KafkaRefusal(asked, code, _said(code, message), right)
    return found


def _right_to_create(client: ClusterClient, topic: str, code: int, replicas: int, key: str) -> str:
    """Return what would be right for an error code: too many replicas is not a missing right."""
    if code == _INVALID_REPLICATION_FACTOR:
        return f"set {key} to at most the number of the cluster's brokers, {len(client.nodes)} (asked: {replicas})"
    return client.grantee.needs_on_topic(Operation.CREATE, topic) if code in AUTHORIZATION else ""


async def _ordered(client: ClusterClient, request: Callable[[int], Request[Any]], *, waits: bool = True) -> Any:
    """Order a change of topics; `request` gets the milliseconds that the cluster may take for it.

    While a quota is used up, a broker reads nothing more from a connection: the request would wait there, with all that
    follow it. So it waits here, if `waits` says so and it is not too long, or is refused (THROTTLING_QUOTA_EXCEEDED).
    """
    left_s = client.changes.left_s()
    if left_s > (client.tuning.api_s if waits else 0.0):
        asked, code = f"changing topics on cluster {client.alias!r}", THROTTLING_QUOTA_EXCEEDED
        raise KafkaRefusal(asked, code, error_name(code), _USED_UP)
    if left_s:
        await pause(left_s)
    most_s = client.tuning.api_s
    connection = await client.controller()
    answer = await connection.call(request(int(most_s * 1000)), max(most_s + _BEYOND_S, client.tuning.answer_s))
    throttle_s = getattr(answer, "throttle_time_ms", 0) / 1000  # DeleteTopics v0 has none
    if throttle_s > _LONG_THROTTLE_S:
        client.changes.note(throttle_s)
        await connection.close()
    return answer


async def delete_topic(client: ClusterClient, topic: str) -> None:
    """Delete a topic; a topic that does not exist is no error. Raises KafkaRefusal."""
    answer = await _ordered(client, lambda most_ms: DeleteTopicsRequest([topic], most_ms))
    _, code = answer.topic_error_codes[0]
    if code not in (NONE, UNKNOWN_TOPIC_OR_PARTITION):
        asked = f"deleting topic {topic} on cluster {client.alias!r}"
        raise _refused(client, asked, (code, None), Operation.DELETE, topic)


async def delete_topic_by_id(client: ClusterClient, topic: str, topic_id: UUID) -> None:
    """Delete the topic that has this id; do nothing if none has it, whatever its name has now.

    A request that a broker gets late cannot delete a topic that was created since. Raises KafkaRefusal.
    """
    answer = await _ordered(client, lambda most_ms: DeleteTopicById(topic_id, most_ms))
    code, message = answer.responses[0][2:4]
    if code not in (NONE, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID):
        asked = f"deleting topic {topic} ({topic_id}) on cluster {client.alias!r}"
        raise _refused(client, asked, (code, message), Operation.DELETE, topic)


async def grow_topic(client: ClusterClient, topic: str, partitions: int, *, waits: bool = True) -> None:
    """Give a topic more partitions; `waits`: for a quota that is used up, for some seconds.

    Raises KafkaRefusal: INVALID_PARTITIONS if it already has as many.
    """
    wanted = [(topic, (partitions, None))]
    answer = await _ordered(client, lambda most_ms: CreatePartitionsRequest(wanted, most_ms, False), waits=waits)
    _, code, message = answer.topic_errors[0]
    if code != NONE:
        asked = f"adding partitions to topic {topic} on cluster {client.alias!r}"
        raise _refused(client, asked, (code, message), Operation.ALTER, topic)


def refusal_text(code: int, message: str | None) -> str:
    """Return Kafka's name of an error, with the broker's message if it has one."""
    return error_name(code) + (f": {message}" if message else "")


def _said(code: int, message: str | None) -> str:
    """Return an error's text; what a broker adds to a missing right says nothing."""
    return error_name(code) if code in AUTHORIZATION else refusal_text(code, message)


def _refused(
    client: ClusterClient, asked: str, answer: tuple[int, str | None], operation: Operation, topic: str
) -> KafkaRefusal:
    """Return the error of a request about a topic; `answer`: Kafka's code and the broker's message."""
    code, message = answer
    right = client.grantee.needs_on_topic(operation, topic) if code in AUTHORIZATION else ""
    return KafkaRefusal(asked, code, _said(code, message), right)
