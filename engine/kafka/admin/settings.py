"""Implements the Settings port on real brokers: many topics or bindings per request, each with its own outcome."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.base.parts import parts, parts_by_weight
from engine.flow.ports.ports import Answers
from engine.flow.ports.settings_port import BINDINGS_AT_ONCE, ENTRIES_AT_ONCE, NoAuthorizer, TopicConfig
from engine.kafka.admin.admin import ConfigsOf, delete_topic_by_id, grow_topic, refusal_text
from engine.kafka.admin.topic_shapes import topic_shapes
from engine.kafka.admin.unknown_configs import UnknownConfigs, create_with_known
from engine.kafka.admin.whole_configs import plan_whole
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.connection import Connection
from engine.kafka.protocol import admin_codec as codec
from engine.kafka.protocol.faults import AUTHORIZATION, NONE, UNSUPPORTED_VERSION, VALUE_REFUSED, error_name
from engine.kafka.protocol.readable import readable
from policies.grants.rights import ResourceKind
from policies.sync.acl_sync import Binding, Operation, Resource
from policies.sync.config_sync import CreateTopic, GrowTopic, TopicState
from policies.sync.creation import Create
from policies.sync.topic_configs import ConfigEntry

_SECURITY_DISABLED = 54
_TIMEOUT_S = 60.0


class _Unaltered(NamedTuple):
    """Why the configs of a topic were not changed; `is_value`: because of the name or the value of one of them."""

    why: str
    is_value: bool = False


class KafkaSettings:
    """Topics, configs and ACLs of one cluster, over its shared control connections."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._configs = ConfigsOf(client)
        self._unknown = UnknownConfigs()
        self.requests = 0
        """The number of requests that changed something."""

    async def topics(self, names: Sequence[str] | None) -> dict[str, TopicState]:
        """Return those of `names` that exist (None: all except internal topics), without configs."""
        return {
            name: TopicState(partitions=one.partitions, replicas=one.replicas)
            for name, one in (await topic_shapes(self._client, names)).items()
            if not (names is None and one.is_internal)
        }

    async def configs(self, topics: Mapping[str, tuple[str, ...] | None]) -> Answers[dict[str, ConfigEntry]]:
        """Describe configs of topics, all (None) or some by name, with many topics per request."""
        found: Answers[dict[str, ConfigEntry]] = Answers({}, {})
        for one in await self._configs.describe(topics):
            if one.error_code == NONE:
                found.found[one.topic] = one.configs
            else:
                why = self._why(one.error_code, one.message, Operation.DESCRIBE_CONFIGS, one.topic)
                found.failed[one.topic] = f"configs on cluster {self._client.alias!r}: {why}"
        return found

    async def acls(self, resource: Resource) -> set[Binding]:
        """Return all bindings of one type of resource, as some broker knows them. Raises NoAuthorizer, KafkaRefusal."""
        return await self._acls(await self._client.any_connection(), resource)

    async def acls_of_brokers(self, resource: Resource) -> dict[int, set[Binding] | None]:
        """Return what each broker knows of these bindings; None: it does not answer. Raises as `acls` does."""
        nodes = list((await self._client.metadata([])).brokers)
        answered = await self._client.all_say(nodes, lambda connection: self._acls(connection, resource))
        return {node: answered.get(node) for node in nodes}

    async def _acls(self, connection: Connection, resource: Resource) -> set[Binding]:
        asked = f"ACLs of cluster {self._client.alias!r}"
        body = await _ask(connection, codec.DESCRIBE_ACLS, codec.describe_acls(resource), asked)
        with readable(connection.address):
            code, message, found = codec.read_acls(body)
        if code == _SECURITY_DISABLED:
            raise NoAuthorizer(self._client.alias)
        if code != NONE:
            right = self._client.grantee.needs(Operation.DESCRIBE, ResourceKind.CLUSTER)
            raise KafkaRefusal(asked, code, refusal_text(code, message), right)
        return found

    async def alter(self, topics: Mapping[str, Mapping[str, str | None]]) -> dict[str, str]:
        """Set configs (None: remove) and leave all others unchanged.

        Brokers without IncrementalAlterConfigs replace all configs of a topic: see `whole_configs`.
        """
        asked = f"changing configs on cluster {self._client.alias!r}"
        return {topic: f"{asked}: {one.why}" for topic, one in (await self._try_to_alter(topics)).items()}

    async def alter_each(self, topics: Mapping[str, Mapping[str, str | None]]) -> dict[TopicConfig, str]:
        """Set configs as `alter` does, and then those of topics whose names or values are refused one by one.

        Kafka sets all configs of a topic or none. A request has one config of each such topic, so thousands of topics
        cost as many more requests as one of them has configs.
        """
        first = await self._try_to_alter(topics)
        each = {topic: topics[topic] for topic, one in first.items() if one.is_value and len(topics[topic]) > 1}
        refused = {
            TopicConfig(topic, name): self._unset(topic, name, one)
            for topic, one in first.items()
            if topic not in each
            for name in topics[topic]
        }
        for part in _one_of_each(each):
            for topic, one in (await self._try_to_alter(part)).items():
                refused |= {TopicConfig(topic, name): self._unset(topic, name, one) for name in part[topic]}
        return refused

    def _unset(self, topic: str, name: str, refusal: _Unaltered) -> str:
        right = f"; make the cluster accept it, or add {name} to config.properties.exclude" if refusal.is_value else ""
        return f"config {name} of topic {topic} on cluster {self._client.alias!r}: {refusal.why}{right}"

    async def _try_to_alter(self, topics: Mapping[str, Mapping[str, str | None]]) -> dict[str, _Unaltered]:
        """Change topics, as many per request as it may have; return why some were not changed."""
        refused: dict[str, _Unaltered] = {}
        for part in _parts(topics):
            try:
                refused |= await self._alter(part)
            except (ConnectionLost, BrokerUnreachable, KafkaRefusal) as failure:
                refused |= dict.fromkeys(part, _Unaltered(str(failure)))
        return refused

    async def _alter(self, part: Mapping[str, Mapping[str, str | None]]) -> dict[str, _Unaltered]:
        """Change the topics of one request; return why some were not changed."""
        asked = f"changing configs on cluster {self._client.alias!r}"
        connection = await self._client.controller()
        if connection.supports(*codec.INCREMENTAL_ALTER_CONFIGS) or not connection.supports(*codec.ALTER_CONFIGS):
            self.requests += 1
            body = await _ask(connection, codec.INCREMENTAL_ALTER_CONFIGS, codec.alter_configs(part), asked)
            return self._unaltered(body)
        whole, unknown = plan_whole(await self._configs.describe(dict.fromkeys(part)), part)
        refused = {topic: _Unaltered(why) for topic, why in unknown.items()}
        if whole:
            self.requests += 1
            body = await _ask(connection, codec.ALTER_CONFIGS, codec.replace_configs(whole), asked)
            refused |= self._unaltered(body)
        return refused

    def _unaltered(self, body: bytes) -> dict[str, _Unaltered]:
        """Say why a broker did not change the configs of topics. Raises ConnectionLost."""
        with readable(self._client.alias):
            answered = codec.read_altered(body)
        return {
            topic: _Unaltered(self._why(code, message, Operation.ALTER_CONFIGS, topic), code in VALUE_REFUSED)
            for topic, (code, message) in answered.items()
            if code != NONE
        }

    async def add_acls(self, bindings: Sequence[Binding]) -> dict[Binding, str]:
        """Add bindings, some hundred per request."""
        asked = f"adding ACLs on cluster {self._client.alias!r}"
        return await self._each_acl(bindings, asked, codec.CREATE_ACLS, codec.create_acls, codec.read_created)

    async def remove_acls(self, bindings: Sequence[Binding]) -> dict[Binding, str]:
        """Remove bindings, some hundred per request; one that does not exist is fine."""
        asked = f"removing ACLs on cluster {self._client.alias!r}"
        return await self._each_acl(bindings, asked, codec.DELETE_ACLS, codec.delete_acls, codec.read_deleted)

    async def _each_acl(
        self,
        bindings: Sequence[Binding],
        asked: str,
        request: tuple[int, int],
        encode: Callable[[Sequence[Binding]], bytes],
        read: Callable[[bytes], list[tuple[int, str]]],
    ) -> dict[Binding, str]:
        refused: dict[Binding, str] = {}
        for part in parts(bindings, BINDINGS_AT_ONCE):
            try:
                body = await self._change(request, encode(part), asked)
                with readable(self._client.alias):
                    answered = list(zip(part, read(body), strict=True))
            except (ConnectionLost, BrokerUnreachable, KafkaRefusal) as failure:
                refused |= dict.fromkeys(part, f"{asked}: {failure}")
                continue
            for binding, (code, message) in answered:
                if code != NONE:
                    refused[binding] = f"{asked}: {self._why(code, message, Operation.ALTER)}"
        return refused

    def _why(self, code: int, message: str | None, operation: Operation, topic: str = "") -> str:
        """Say why a request about a topic, or about the cluster, was refused, and which right is missing."""
        why = refusal_text(code, message)
        if code not in AUTHORIZATION:
            return why
        kind = ResourceKind.TOPIC if topic else ResourceKind.CLUSTER
        return f"{why}; {self._client.grantee.needs(operation, kind, topic)}"

    async def _change(self, request: tuple[int, int], body: bytes, asked: str) -> bytes:
        self.requests += 1
        return await _ask(await self._client.controller(), request, body, asked)

    async def create(self, change: CreateTopic) -> tuple[str, ...]:
        """Create a topic; an existing topic is fine. Raises KafkaRefusal.

        Returns the configs that it lacks because the cluster does not know them.
        """
        self.requests += 1
        new = {change.target: Create(change.partitions, change.replication_factor, dict(change.configs))}
        made, left_out = await create_with_known(self._client, new, self._unknown, waits=True)
        if isinstance(refusal := made[change.target], KafkaRefusal):
            raise refusal
        return left_out.get(change.target, ())

    async def grow(self, change: GrowTopic) -> None:
        """Give a topic more partitions. Raises KafkaRefusal."""
        self.requests += 1
        await grow_topic(self._client, change.target, change.partitions)

    async def delete(self, topic: str, topic_id: str) -> None:
        """Delete the topic that has this id; one that does not exist is fine. Raises KafkaRefusal."""
        self.requests += 1
        await delete_topic_by_id(self._client, topic, UUID(topic_id))


def _one_of_each(topics: Mapping[str, Mapping[str, str | None]]) -> Iterator[dict[str, dict[str, str | None]]]:
    """Split changes so that each part has one config of each topic that still has one."""
    most = max(map(len, topics.values()), default=0)
    for number in range(most):
        chosen = ((topic, list(configs.items())[number : number + 1]) for topic, configs in topics.items())
        yield {topic: dict(one) for topic, one in chosen if one}


def _parts(topics: Mapping[str, Mapping[str, str | None]]) -> Iterator[dict[str, Mapping[str, str | None]]]:
    """Split a request into several, limited by entries; a topic has at least one."""
    return map(dict, parts_by_weight(topics.items(), lambda topic: len(topic[1]), ENTRIES_AT_ONCE))


async def _ask(connection: Connection, request: tuple[int, int], body: bytes, asked: str) -> bytes:
    """Send a request. Raises KafkaRefusal if the broker does not know it."""
    if not connection.supports(*request):
        name = error_name(UNSUPPORTED_VERSION)
        raise KafkaRefusal(asked, UNSUPPORTED_VERSION, name, "needed: brokers of Kafka 2.3 or newer")
    return bytes(await connection.request(*request, False, [body], _TIMEOUT_S))
