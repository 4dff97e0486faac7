"""The protocols of policies and filters that users provide: MM2's interfaces, with Python's names.

A factory gets the settings of its flow (a mapping of names to texts) and returns an object with the methods below. The
object must be the same in every process: it is made anew in each of them, and pickled for Spark. Its answers depend on
the arguments and on the settings, and on nothing else.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

Factory = Callable[[Mapping[str, str]], object]
"""The object that an entry point of the group `raymirror.policies` names: a class, or a function."""


class ReplicationPolicy(Protocol):
    """Names of topics on the target (Kafka: ReplicationPolicy); `replication.policy.class` names it.

    It may also have `heartbeats_topic()`, `offset_syncs_topic(alias)`, `checkpoints_topic(alias)` and
    `is_internal_topic(topic)`; without them, MM2's default holds.
    """

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Return the target's name of a source topic; two topics must not get one name."""

    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the cluster that a topic was copied from; None if the name does not show it."""

    def upstream_topic(self, topic: str) -> str | None:
        """Return the name that a topic has on the cluster it was copied from; None if it is no copy."""


class TopicFilter(Protocol):
    """Chooses topics (Kafka: TopicFilter); `topic.filter.class` names it."""

    def should_replicate_topic(self, topic: str) -> bool:
        """Whether a source topic is copied. Internal topics and copies that come back never are."""


class GroupFilter(Protocol):
    """Chooses consumer groups (Kafka: GroupFilter); `group.filter.class` names it."""

    def should_replicate_group(self, group: str) -> bool:
        """Whether a group is mirrored."""


class ConfigPropertyFilter(Protocol):
    """Chooses topic configs (Kafka: ConfigPropertyFilter); `config.property.filter.class` names it."""

    def should_replicate_config_property(self, name: str) -> bool:
        """Whether a config that the topic or the cluster has set is copied."""

    def should_replicate_source_default(self, name: str) -> bool:
        """Whether a config is copied of which the source has Kafka's default, if the copy's value differs."""


METHODS: Mapping[type, tuple[str, ...]] = {
    ReplicationPolicy: ("format_remote_topic", "topic_source", "upstream_topic"),
    TopicFilter: ("should_replicate_topic",),
    GroupFilter: ("should_replicate_group",),
    ConfigPropertyFilter: ("should_replicate_config_property", "should_replicate_source_default"),
}
"""The methods that each kind must have."""
