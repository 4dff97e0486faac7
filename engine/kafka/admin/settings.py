"""Implements the Settings port on real brokers: many topics or bindings per request, each with its own outcome."""

from collections.abc import Iterator, Mapping, Sequence

from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.base.parts import parts, parts_by_weight
from engine.flow.ports.ports import Answers
from engine.flow.ports.settings_port import BINDINGS_AT_ONCE, ENTRIES_AT_ONCE, NoAuthorizer
from engine.kafka.admin.admin import ConfigsOf, create_topic, grow_topic, refusal_text
from engine.kafka.admin.topic_shapes import topic_shapes
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.connection import Connection
from engine.kafka.protocol import admin_codec as codec
from engine.kafka.protocol.faults import NONE, error_name
from engine.kafka.protocol.readable import readable
from policies.sync.acl_sync import Binding, Resource
from policies.sync.config_sync import CreateTopic, GrowTopic, TopicState
from policies.sync.topic_configs import ConfigEntry

_SECURITY_DISABLED, _UNSUPPORTED_VERSION = 54, 35
_TIMEOUT_S = 60.0


class KafkaSettings:
    """Topics, configs and ACLs of one cluster, over its shared control connections."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._configs = ConfigsOf(client)
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
                why = refusal_text(one.error_code, one.message)
                found.failed[one.topic] = f"configs on cluster {self._client.alias!r}: {why}"
        return found

    async def acls(self, resource: Resource) -> set[Binding]:
        """Return all bindings of one type of resource. Raises NoAuthorizer, KafkaRefusal."""
        connection = await self._client.any_connection()
        asked = f"ACLs of cluster {self._client.alias!r}"
        body = await _ask(connection, codec.DESCRIBE_ACLS, codec.describe_acls(resource), asked)
        with readable(connection.address):
            code, message, found = codec.read_acls(body)
        if code == _SECURITY_DISABLED:
            raise NoAuthorizer(self._client.alias)
        if code != NONE:
            raise KafkaRefusal(asked, code, refusal_text(code, message), "needed: Describe on the cluster")
        return found

    async def alter(self, topics: Mapping[str, Mapping[str, str | None]]) -> dict[str, str]:
        """Set configs (None: remove) and leave all others unchanged (IncrementalAlterConfigs)."""
        refused: dict[str, str] = {}
        asked = f"changing configs on cluster {self._client.alias!r}"
        for part in _parts(topics):
            request = codec.alter_configs(part)
            try:
                body = await self._change(codec.INCREMENTAL_ALTER_CONFIGS, request, asked)
                with readable(self._client.alias):
                    answered = codec.read_altered(body)
            except (ConnectionLost, BrokerUnreachable, KafkaRefusal) as failure:
                refused |= dict.fromkeys(part, f"{asked}: {failure}")
                continue
            for topic, (code, message) in answered.items():
                if code != NONE:
                    refused[topic] = f"{asked}: {refusal_text(code, message)}; needed: AlterConfigs on the topic"
        return refused

    async def add_acls(self, bindings: Sequence[Binding]) -> dict[Binding, str]:
        """Add bindings, some hundred per request."""
        refused: dict[Binding, str] = {}
        asked = f"adding ACLs on cluster {self._client.alias!r}"
        for part in parts(bindings, BINDINGS_AT_ONCE):
            try:
                body = await self._change(codec.CREATE_ACLS, codec.create_acls(part), asked)
                with readable(self._client.alias):
                    answered = list(zip(part, codec.read_created(body), strict=True))
            except (ConnectionLost, BrokerUnreachable, KafkaRefusal) as failure:
                refused |= dict.fromkeys(part, f"{asked}: {failure}")
                continue
            for binding, (code, message) in answered:
                if code != NONE:
                    refused[binding] = f"{asked}: {refusal_text(code, message)}; needed: Alter on the cluster"
        return refused

    async def _change(self, request: tuple[int, int], body: bytes, asked: str) -> bytes:
        self.requests += 1
        return await _ask(await self._client.controller(), request, body, asked)

    async def create(self, change: CreateTopic) -> None:
        """Create a topic; an existing topic is fine. Raises KafkaRefusal."""
        self.requests += 1
        await create_topic(
            self._client, change.target, change.partitions, change.replication_factor, dict(change.configs)
        )

    async def grow(self, change: GrowTopic) -> None:
        """Give a topic more partitions. Raises KafkaRefusal."""
        self.requests += 1
        await grow_topic(self._client, change.target, change.partitions)


def _parts(topics: Mapping[str, Mapping[str, str | None]]) -> Iterator[dict[str, Mapping[str, str | None]]]:
    """Split a request into several, limited by entries; a topic has at least one."""
    return map(dict, parts_by_weight(topics.items(), lambda topic: len(topic[1]), ENTRIES_AT_ONCE))


async def _ask(connection: Connection, request: tuple[int, int], body: bytes, asked: str) -> bytes:
    """Send a request. Raises KafkaRefusal if the broker does not know it."""
    if not connection.supports(*request):
        name = error_name(_UNSUPPORTED_VERSION)
        raise KafkaRefusal(asked, _UNSUPPORTED_VERSION, name, "needed: brokers of Kafka 2.3 or newer")
    return bytes(await connection.request(*request, False, [body], _TIMEOUT_S))
