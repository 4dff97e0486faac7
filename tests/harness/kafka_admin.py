"""Kafka's own admin client in a JVM: it sets the stage for config and ACL sync, and judges what came of it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from policies.acl_sync import Binding, Operation, Pattern, Permission, Resource

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Overrides of a cluster that has ACLs, and on which these tests may do everything all the same."""


class Config(NamedTuple):
    """A config as the broker describes it; `source` by Kafka's name, e.g. DYNAMIC_TOPIC_CONFIG."""

    value: str | None
    source: str
    read_only: bool
    sensitive: bool


class KafkaAdmin:
    """One cluster's admin client; `classes` are those of `tests.harness.jvm`."""

    def __init__(self, classes: Any, servers: str) -> None:
        self._java = classes
        self._common = classes.org.apache.kafka.common
        self._clients = classes.org.apache.kafka.clients.admin
        settings = classes.java.util.Properties()
        settings.put("bootstrap.servers", servers)
        self._admin = self._clients.Admin.create(settings)

    def close(self) -> None:
        """Disconnect."""
        self._admin.close()

    def _resource(self, topic: str) -> Any:
        kind = self._common.config.ConfigResource.Type.TOPIC
        return self._common.config.ConfigResource(kind, topic)

    def configs(self, topics: Sequence[str]) -> dict[str, dict[str, Config]]:
        """Describe topics."""
        described = self._admin.describeConfigs([self._resource(topic) for topic in topics]).all().get()
        found: dict[str, dict[str, Config]] = {}
        for resource in described.keySet():
            found[resource.name()] = {
                entry.name(): Config(entry.value(), entry.source().name(), entry.isReadOnly(), entry.isSensitive())
                for entry in described.get(resource).entries()
            }
        return found

    def own(self, topic: str) -> dict[str, str | None]:
        """Return what was set for a topic alone."""
        configs = self.configs([topic])[topic]
        return {name: one.value for name, one in configs.items() if one.source == "DYNAMIC_TOPIC_CONFIG"}

    def set_configs(self, topic: str, configs: Mapping[str, str | None]) -> None:
        """Set configs of a topic, None takes one away; raises py4j's error with the broker's words."""
        change, entry = self._clients.AlterConfigOp, self._clients.ConfigEntry
        kinds = change.OpType
        ops = [
            change(entry(name, value), kinds.DELETE if value is None else kinds.SET) for name, value in configs.items()
        ]
        self._admin.incrementalAlterConfigs({self._resource(topic): ops}).all().get()

    def takes(self, topic: str, configs: Mapping[str, str | None]) -> bool:
        """Set configs of a topic; False where the broker refuses."""
        try:
            self.set_configs(topic, configs)
        except Py4JJavaError:
            return False
        return True

    def set_cluster_config(self, name: str, value: str | None) -> None:
        """Set a dynamic default of all brokers, None takes it away."""
        change, kind = self._clients.AlterConfigOp, self._common.config.ConfigResource.Type.BROKER
        op = change.OpType.DELETE if value is None else change.OpType.SET
        everyone = self._common.config.ConfigResource(kind, "")
        ops = [change(self._clients.ConfigEntry(name, value), op)]
        self._admin.incrementalAlterConfigs({everyone: ops}).all().get()

    def add_acls(self, bindings: Iterable[Binding]) -> None:
        """Add bindings."""
        acl, resource = self._common.acl, self._common.resource
        made = [
            acl.AclBinding(
                resource.ResourcePattern(
                    resource.ResourceType.valueOf(Resource(one.resource).name),
                    one.name,
                    resource.PatternType.valueOf(Pattern(one.pattern).name),
                ),
                acl.AccessControlEntry(
                    one.principal,
                    one.host,
                    acl.AclOperation.valueOf(Operation(one.operation).name),
                    acl.AclPermissionType.valueOf(Permission(one.permission).name),
                ),
            )
            for one in bindings
        ]
        self._admin.createAcls(made).all().get()

    def takes_acl(self, binding: Binding) -> bool:
        """Add a binding; False where the broker, or its client, refuses."""
        try:
            self.add_acls([binding])
        except Py4JJavaError:
            return False
        return True

    def acls(self) -> set[Binding]:
        """Return all bindings of topics and groups."""
        found = set()
        for binding in self._admin.describeAcls(self._common.acl.AclBindingFilter.ANY).values().get():
            pattern, entry = binding.pattern(), binding.entry()
            kind = pattern.resourceType().name()
            if kind in Resource.__members__:
                found.add(
                    Binding(
                        int(Resource[kind]),
                        pattern.name(),
                        int(Pattern[pattern.patternType().name()]),
                        entry.principal(),
                        entry.host(),
                        int(Operation[entry.operation().name()]),
                        int(Permission[entry.permissionType().name()]),
                    )
                )
        return found
