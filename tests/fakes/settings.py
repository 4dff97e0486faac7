"""Topics, configs and ACLs of a cluster in memory, behind the Settings port."""

from collections.abc import Callable, Collection, Mapping, Sequence

from engine.base.errors import KafkaRefusal
from engine.flow.ports.ports import Answers
from engine.flow.ports.settings_port import NoAuthorizer, TopicConfig
from policies.sync.acl_sync import Binding, Resource
from policies.sync.config_sync import CreateTopic, GrowTopic, TopicState
from policies.sync.topic_configs import DEFAULT, TOPIC_OVERRIDE, ConfigEntry

DEFAULTS = {
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "cleanup.policy": "delete",
    "delete.retention.ms": "86400000",
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "false",
}


class FakeSettings:
    """One cluster; a test breaks it by setting what is public. `before` is called with every question and may raise."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.own: dict[str, dict[str, str]] = {}
        """By topic, what was set for it alone."""
        self.partitions: dict[str, int] = {}
        self.replicas = 1
        self.bindings: set[Binding] = set()
        self.has_authorizer = True
        self.failing: dict[str, str] = {}
        """By topic, why nothing is told of its configs, or none is changed."""
        self.refused_configs: Collection[str] = ()
        """Configs that no topic gets."""
        self.refused_bindings: dict[Binding, str] = {}
        self.writes: list[str] = []
        self.before: Callable[[str], object] = lambda _asked: None

    def put(self, topic: str, partitions: int = 1, **configs: str) -> None:
        """Make a topic, or make it anew."""
        self.partitions[topic] = partitions
        self.own[topic] = {name.replace("_", "."): value for name, value in configs.items()}

    async def topics(self, names: Sequence[str] | None) -> dict[str, TopicState]:
        self.before("topics")
        wanted = self.partitions if names is None else [name for name in names if name in self.partitions]
        return {name: TopicState(partitions=self.partitions[name], replicas=self.replicas) for name in wanted}

    async def configs(self, topics: Mapping[str, tuple[str, ...] | None]) -> Answers[dict[str, ConfigEntry]]:
        self.before("configs")
        found: Answers[dict[str, ConfigEntry]] = Answers({}, {})
        for topic, names in topics.items():
            assert names != (), "Kafka takes no names for all"
            if topic in self.failing or topic not in self.partitions:
                found.failed[topic] = self.failing.get(topic, "UnknownTopicOrPartition")
                continue
            found.found[topic] = {name: ConfigEntry(value, DEFAULT, False, False) for name, value in DEFAULTS.items()}
            for name, value in self.own[topic].items():
                found.found[topic][name] = ConfigEntry(value, TOPIC_OVERRIDE, False, False)
            if names is not None:
                found.found[topic] = {name: one for name, one in found.found[topic].items() if name in names}
        return found

    async def acls(self, resource: Resource) -> set[Binding]:
        self.before("acls")
        if not self.has_authorizer:
            raise NoAuthorizer(self.name)
        return {binding for binding in self.bindings if binding.resource == resource}

    async def acls_of_brokers(self, resource: Resource) -> dict[int, set[Binding] | None]:
        return {1: await self.acls(resource)}

    async def alter(self, topics: Mapping[str, Mapping[str, str | None]]) -> dict[str, str]:
        self.before("alter")
        tried = {topic: self._set(topic, configs) for topic, configs in topics.items()}
        return {topic: why for topic, why in tried.items() if why}

    async def alter_each(self, topics: Mapping[str, Mapping[str, str | None]]) -> dict[TopicConfig, str]:
        self.before("alter")
        tried = {
            TopicConfig(topic, name): self._set(topic, {name: value})
            for topic, configs in topics.items()
            for name, value in configs.items()
        }
        return {one: why for one, why in tried.items() if why}

    def _set(self, topic: str, configs: Mapping[str, str | None]) -> str:
        """Set all these configs of a topic, or none and return why."""
        unknown = [name for name in configs if name not in DEFAULTS or name in self.refused_configs]
        if topic not in self.partitions or topic in self.failing or unknown:
            return self.failing.get(topic) or f"InvalidConfig: {unknown}"
        for name, value in configs.items():
            self.writes.append(f"{topic}: {name}={value}")
            self.own[topic].pop(name, None)
            if value is not None:
                self.own[topic][name] = value
        return ""

    async def add_acls(self, bindings: Sequence[Binding]) -> dict[Binding, str]:
        self.before("add_acls")
        if not self.has_authorizer:
            return dict.fromkeys(bindings, "SecurityDisabled")
        done = [binding for binding in bindings if binding not in self.refused_bindings]
        self.bindings |= set(done)
        self.writes += [str(binding) for binding in done]
        return {binding: why for binding, why in self.refused_bindings.items() if binding in bindings}

    async def remove_acls(self, bindings: Sequence[Binding]) -> dict[Binding, str]:
        self.before("remove_acls")
        if not self.has_authorizer:
            return dict.fromkeys(bindings, "SecurityDisabled")
        self.bindings -= {binding for binding in bindings if binding not in self.refused_bindings}
        self.writes += [f"removed {binding}" for binding in bindings if binding not in self.refused_bindings]
        return {binding: why for binding, why in self.refused_bindings.items() if binding in bindings}

    async def create(self, change: CreateTopic) -> tuple[str, ...]:
        self.before("create")
        if change.target in self.partitions:
            return ()
        known = {name: value for name, value in change.configs.items() if name in DEFAULTS}
        self.partitions[change.target], self.own[change.target] = change.partitions, known
        self.writes.append(f"create {change.target}")
        return tuple(sorted(change.configs.keys() - known.keys()))

    async def grow(self, change: GrowTopic) -> None:
        self.before("grow")
        if change.partitions <= self.partitions.get(change.target, 0):
            raise KafkaRefusal(f"adding partitions to topic {change.target}", 37, "InvalidPartitions", "")
        self.partitions[change.target] = change.partitions
        self.writes.append(f"grow {change.target}")

    async def delete(self, topic: str, topic_id: str) -> None:
        self.before("delete")
        self.partitions.pop(topic, None)
        self.own.pop(topic, None)
        self.writes.append(f"delete {topic}")
