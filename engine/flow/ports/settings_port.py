"""Port to a cluster's topics, configs and ACLs for config sync: `engine/kafka` has real brokers, the tests fakes.

Every method that asks raises ConnectionLost or BrokerUnreachable if no broker answers. Methods that change many
topics or bindings raise nothing: each topic or binding fails alone with the broker's reason, or with its request.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from engine.base.errors import MirrorError
from engine.flow.ports.ports import Answers
from policies.sync.acl_sync import Binding, Resource
from policies.sync.config_sync import CreateTopic, GrowTopic, TopicState
from policies.sync.topic_configs import ConfigEntry

TOPICS_AT_ONCE = 250
"""Topics whose configs one request asks for: an answer of some 300 KB, if it asks for all entries."""
REQUESTS_AT_ONCE = 4
"""Such requests in flight together."""
ENTRIES_AT_ONCE = 2_000
"""Config entries that `alter` sends in one request: a KRaft controller accepts at most 10,000 records per request."""
BINDINGS_AT_ONCE = 500
"""Bindings that `add_acls` sends in one request."""


class TopicConfig(NamedTuple):
    """A config of a topic."""

    topic: str
    name: str


class NoAuthorizer(MirrorError):
    """The cluster has no authorizer, so it has no ACLs."""

    def __init__(self, cluster: str) -> None:
        super().__init__(cluster)
        self.cluster = cluster

    def __str__(self) -> str:
        return f"cluster {self.cluster!r} has no authorizer"


class Settings(Protocol):
    """Topics, configs and ACLs of one cluster."""

    async def topics(self, names: Sequence[str] | None) -> dict[str, TopicState]:
        """Return those of the topics that exist (None: all but internal ones), without configs."""

    async def configs(self, topics: Mapping[str, tuple[str, ...] | None]) -> Answers[dict[str, ConfigEntry]]:
        """Describe configs of topics: all (None), or the named ones, at least one.

        It may be called again before it has answered.
        """

    async def acls(self, resource: Resource) -> set[Binding]:
        """Return all bindings of one type of resource, as some broker knows them. Raises NoAuthorizer, KafkaRefusal."""

    async def acls_of_brokers(self, resource: Resource) -> dict[int, set[Binding] | None]:
        """Return what each broker knows of these bindings; None: it does not answer. Raises as `acls` does.

        A broker decides by what it knows itself, which lags behind the controller's log.
        """

    async def alter(self, topics: Mapping[str, Mapping[str, str | None]]) -> dict[str, str]:
        """Set configs (None: remove) and leave all others; return the refused topics, and why.

        All configs of a topic are set, or none.
        """

    async def alter_each(self, topics: Mapping[str, Mapping[str, str | None]]) -> dict[TopicConfig, str]:
        """Set configs as `alter` does, where a refused one hinders no other; return the refused ones, and why."""

    async def add_acls(self, bindings: Sequence[Binding]) -> dict[Binding, str]:
        """Add bindings; return the refused ones, and why."""

    async def remove_acls(self, bindings: Sequence[Binding]) -> dict[Binding, str]:
        """Remove bindings, if they exist; return the refused ones, and why."""

    async def create(self, change: CreateTopic) -> tuple[str, ...]:
        """Create a topic; do nothing if it exists already. Raises KafkaRefusal.

        Returns the configs that it lacks because the cluster does not know them.
        """

    async def grow(self, change: GrowTopic) -> None:
        """Give a topic more partitions. Raises KafkaRefusal."""

    async def delete(self, topic: str, topic_id: str) -> None:
        """Delete the topic that has this id; do nothing if none has it. Raises KafkaRefusal."""
