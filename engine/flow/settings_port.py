"""What config sync needs of a cluster: filled by `engine/kafka` with real brokers, by the tests with fakes.

Every method that asks raises ConnectionLost or BrokerUnreachable where nobody answers. Those that change many topics or
bindings raise nothing: each fails alone, with the broker's words, or with its request.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from engine.errors import MirrorError
from engine.flow.ports import Answers
from policies.acl_sync import Binding, Resource
from policies.config_sync import CreateTopic, GrowTopic, TopicState
from policies.topic_configs import ConfigEntry

TOPICS_AT_ONCE = 250
"""Topics whose configs one request asks for: an answer of some 300 KB, if all of them is asked for."""
REQUESTS_AT_ONCE = 4
"""Such requests that are out together."""


class NoAuthorizer(MirrorError):
    """A cluster without an authorizer has no ACLs: which."""

    def __init__(self, cluster: str) -> None:
        super().__init__(cluster)
        self.cluster = cluster

    def __str__(self) -> str:
        return f"cluster {self.cluster!r} has no authorizer"


class Settings(Protocol):
    """Topics, configs and ACLs of one cluster."""

    async def topics(self, names: Sequence[str] | None) -> dict[str, TopicState]:
        """Return the topics that exist of these (None: of all but internal ones), without configs."""

    async def configs(self, topics: Mapping[str, tuple[str, ...] | None]) -> Answers[dict[str, ConfigEntry]]:
        """Describe configs of topics: all (None), or those of the names, of which there must be one.

        It may be called again before it has answered.
        """

    async def acls(self, resource: Resource) -> set[Binding]:
        """Return all bindings of one type of resource. Raises NoAuthorizer, KafkaRefusal."""

    async def alter(self, topics: Mapping[str, Mapping[str, str | None]]) -> dict[str, str]:
        """Set configs (None: take away) and leave all others; return why by topic, for those that were refused."""

    async def add_acls(self, bindings: Sequence[Binding]) -> dict[Binding, str]:
        """Add bindings; return why by binding, for those that were refused."""

    async def create(self, change: CreateTopic) -> None:
        """Create a topic; one that is there already is fine. Raises KafkaRefusal."""

    async def grow(self, change: GrowTopic) -> None:
        """Give a topic more partitions. Raises KafkaRefusal."""
