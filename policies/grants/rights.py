"""A right on a cluster: one operation on one resource, as Kafka's authorizer sees it (KIP-11, KIP-290)."""

from enum import Enum

import msgspec

from policies.sync.acl_sync import Operation

CLUSTER_NAME = "kafka-cluster"
"""The only name of a resource of the type cluster (Kafka: Resource.CLUSTER_NAME)."""
EVERY = "*"
"""A literal name that stands for every resource of its type (Kafka: ResourcePattern.WILDCARD_RESOURCE)."""


class ResourceKind(Enum):
    """The types of resources that raymirror's requests touch, in Kafka's words."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional id"


IMPLIED = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""Operations that others allow too (Kafka: StandardAuthorizerData, IMPLIES_DESCRIBE and IMPLIES_DESCRIBE_CONFIGS)."""


class ResourceName(msgspec.Struct, frozen=True, order=True):
    """The name in an ACL. `is_prefix`: it stands for every name that begins with it (KIP-290)."""

    name: str
    is_prefix: bool = False

    def covers(self, other: "ResourceName") -> bool:
        """Whether an ACL on this name allows all that one on the other name does."""
        if self.name == EVERY and not self.is_prefix:
            return True
        if self.is_prefix:
            return other.name.startswith(self.name) and other.name != EVERY
        return self == other


def operation_name(operation: Operation) -> str:
    """Return the operation as `kafka-acls` and Kafka's documentation write it, e.g. `DescribeConfigs`."""
    return "".join(part.capitalize() for part in operation.name.split("_"))


def grant_text(operation: Operation, kind: ResourceKind, name: str, cluster: str, user: str) -> str:
    """Say which right is missing, and who needs it. `user`: raymirror's name there; empty if only the brokers know it.

    >>> grant_text(Operation.WRITE, ResourceKind.TOPIC, "A.orders", "B", "mirror")
    "grant Write on topic A.orders on cluster 'B' to User:mirror"
    """
    resource = "" if kind is ResourceKind.CLUSTER else f" on {kind.value} {name}"
    where = f" on cluster {cluster!r}" if cluster else " on the cluster" * (not resource)
    return f"grant {operation_name(operation)}{resource}{where} to {principal(user)}"


def principal(user: str) -> str:
    """Return the principal of a user, in Kafka's form; in words, if only the brokers know it."""
    return f"User:{user}" if user else "raymirror's user"


class Grantee(msgspec.Struct, frozen=True):
    """Who needs rights: raymirror on one cluster, as its brokers know it; an empty user: only they know it."""

    cluster: str = ""
    user: str = ""

    @property
    def who(self) -> str:
        """The principal."""
        return principal(self.user)

    def needs(self, operation: Operation, kind: ResourceKind, name: str = "") -> str:
        """Say which right is missing."""
        return grant_text(operation, kind, name, self.cluster, self.user)

    def needs_on_topic(self, operation: Operation, topic: str) -> str:
        """Say which right on a topic is missing."""
        return self.needs(operation, ResourceKind.TOPIC, topic)


SOMEBODY = Grantee()
"""Of whom nothing is known."""
