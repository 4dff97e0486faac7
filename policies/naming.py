"""The names of topics on the target cluster: MM2's replication policies (Kafka: ReplicationPolicy)."""

HEARTBEATS = "heartbeats"
DEFAULT_CLASS = "DefaultReplicationPolicy"
IDENTITY_CLASS = "IdentityReplicationPolicy"
SHORT_CLASSES = (DEFAULT_CLASS, IDENTITY_CLASS)
PACKAGE = "org.apache.kafka.connect.mirror."
"""MM2 finds a policy by its full name only (Java's Class.forName)."""
LIKE_IDENTITY = frozenset(
    {
        "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
        "org.apache.kafka.connect.mirror.LegacyReplicationPolicy",
        "com.amazonaws.kafka.samples.CustomMM2ReplicationPolicy",
    }
)
"""Classes of others that keep names, too: Strimzi's from the time when Kafka had none (until 3.0), the working name of
Kafka's own class (KAFKA-9726), and the sample of Amazon's guide to MSK. Only heartbeats may have another name there.
"""
_OWN_PREFIXES = ("mm2", "raymirror-")


class DefaultNaming:
    """`<source alias><separator><topic>`."""

    shows_source = True
    """Whether the name of a copy shows the cluster that it came from, so that a loop shows in the name."""

    def __init__(self, separator: str = ".", *, internal_separator: bool = True) -> None:
        self.separator = separator
        self._internal = separator if internal_separator else "."

    @property
    def policy(self) -> str:
        """The name of the policy, for users."""
        return DEFAULT_CLASS

    def remote_topic(self, source_alias: str, topic: str) -> str:
        """Return the target's name of a source topic."""
        return f"{source_alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """Return the part before the first separator; like Java's split, drop trailing empty parts (`a.` is local)."""
        parts = topic.split(self.separator) if self.separator else list(topic)
        while parts and not parts[-1]:
            parts.pop()
        return parts[0] if len(parts) >= 2 else None

    def upstream_topic(self, topic: str) -> str | None:
        """Return the name without its source prefix."""
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        """Return the name that a topic had where it was first written."""
        while (upstream := self.upstream_topic(topic)) is not None and upstream != topic:
            topic = upstream
        return topic

    def heartbeats_topic(self) -> str:
        """Return `heartbeats`, whatever the separator."""
        return HEARTBEATS

    def offset_syncs_topic(self, alias: str) -> str:
        """Return MM2's offset-syncs topic, named after the other cluster of the flow."""
        return f"mm2-offset-syncs{self._internal}{alias}{self._internal}internal"

    def checkpoints_topic(self, alias: str) -> str:
        """Return MM2's checkpoints topic for groups of a source."""
        return f"{alias}{self._internal}checkpoints{self._internal}internal"

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Whether a topic is a heartbeats topic, copied any number of times."""
        return self.original_topic(topic) == HEARTBEATS

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Whether a topic is a checkpoints topic of some source."""
        return topic.endswith(f"{self._internal}checkpoints{self._internal}internal")

    def is_internal_topic(self, topic: str) -> bool:
        """Whether a topic is never copied: topics of the broker, hidden topics, MM2's own and raymirror's.

        This is the rule of Kafka 4.0 and newer (KIP-1074): any other topic that ends in `internal` is copied unless
        `topics.exclude` names it, which it does by default. Before 4.0 MM2 left out every such topic. MM2's own topics
        are matched in each possible spelling, because three of them keep their dots under any separator.
        """
        if topic.startswith(("__", ".")) or self.is_checkpoints_topic(topic):
            return True
        endings = (".internal", "-internal", f"{self._internal}internal")
        return topic.startswith(_OWN_PREFIXES) and topic.endswith(endings)


class IdentityNaming(DefaultNaming):
    """Topics keep their names, except heartbeats; so a name does not show a loop."""

    shows_source = False

    def __init__(self, source_alias: str, separator: str = ".", *, internal_separator: bool = True) -> None:
        super().__init__(separator, internal_separator=internal_separator)
        self._source_alias = source_alias

    @property
    def policy(self) -> str:
        """The name of the policy, for users."""
        return IDENTITY_CLASS

    def remote_topic(self, source_alias: str, topic: str) -> str:
        """Return the same name; a heartbeats topic gets its prefix."""
        return super().remote_topic(source_alias, topic) if _heartbeats(topic) else topic

    def topic_source(self, topic: str) -> str | None:
        """Return the configured source for every topic."""
        return super().topic_source(topic) if _heartbeats(topic) else self._source_alias

    def upstream_topic(self, topic: str) -> str | None:
        """Return the same name."""
        return super().upstream_topic(topic) if _heartbeats(topic) else topic


def _heartbeats(topic: str) -> bool:
    return topic.endswith(HEARTBEATS)


def keeps_names(policy_class: str) -> bool:
    """Whether a known policy class, by short or full name, gives copies the names of their sources."""
    return policy_class.removeprefix(PACKAGE) == IDENTITY_CLASS or policy_class in LIKE_IDENTITY


def naming_for(
    policy_class: str, source_alias: str, separator: str = ".", *, internal_separator: bool = True
) -> DefaultNaming:
    """Return the naming of a known policy class, by short or full name. Raises ValueError for other classes."""
    short = policy_class.removeprefix(PACKAGE)
    if short == DEFAULT_CLASS:
        return DefaultNaming(separator, internal_separator=internal_separator)
    if keeps_names(policy_class):
        return IdentityNaming(source_alias, separator, internal_separator=internal_separator)
    raise ValueError(f"{policy_class!r} is no policy of MM2's")
