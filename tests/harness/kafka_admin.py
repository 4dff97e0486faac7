"""Kafka's own admin client in a JVM, for ACLs, which aiokafka's client lacks: creates them and reads the result."""

from collections.abc import Iterable
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from policies.sync.acl_sync import Binding, Operation, Pattern, Permission, Resource

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Overrides of a cluster that has ACLs, and on which these tests may do everything all the same."""


class KafkaAdmin:
    """One cluster's admin client; `classes` are those of `tests.harness.jvm`."""

    def __init__(self, classes: Any, servers: str) -> None:
        self._java = classes
        self._common = classes.org.apache.kafka.common
        settings = classes.java.util.Properties()
        settings.put("bootstrap.servers", servers)
        self._admin = classes.org.apache.kafka.clients.admin.AdminClient.create(settings)

    def close(self) -> None:
        """Disconnect."""
        self._admin.close()

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
        answer = self._admin.describeAcls(self._common.acl.AclBindingFilter.ANY).values().get()
        # As an array: classes of collections' iterators are not open to other modules.
        for binding in self._java.java.util.ArrayList(answer).toArray():
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
