"""Policies and filters as a user would write them, good ones and bad ones."""

from collections.abc import Mapping


class Suffixed:
    """`topic-of-A`; what it leaves open is MM2's default."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.word = settings.get("replication.policy.word", "of")

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return f"{topic}-{self.word}-{source_alias}"

    def topic_source(self, topic: str) -> str | None:
        return topic.rpartition(f"-{self.word}-")[2] if f"-{self.word}-" in topic else None

    def upstream_topic(self, topic: str) -> str | None:
        return topic.rpartition(f"-{self.word}-")[0] or None


class Named(Suffixed):
    """The same, with names of its own for internal topics."""

    def heartbeats_topic(self) -> str:
        return "beats"

    def offset_syncs_topic(self, alias: str) -> str:
        return f"syncs-{alias}"

    def checkpoints_topic(self, alias: str) -> str:
        return f"checkpoints-{alias}"

    def is_internal_topic(self, topic: str) -> bool:
        return topic.startswith("tmp-")


class Chosen:
    """A filter of all kinds, by the beginning of a name."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.begin = settings.get("my.begin", "orders")

    def should_replicate_topic(self, topic: str) -> bool:
        return topic.startswith(self.begin)

    should_replicate_group = should_replicate_topic
    should_replicate_config_property = should_replicate_topic

    def should_replicate_source_default(self, name: str) -> bool:
        return name.endswith("default")


class Circular(Suffixed):
    """Names that lead in a circle."""

    def upstream_topic(self, topic: str) -> str | None:
        return topic.swapcase()


class Unkind:
    """Answers that cannot be used."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return f"{source_alias}/{topic}"

    def topic_source(self, topic: str) -> object:
        return 7

    def upstream_topic(self, topic: str) -> str | None:
        raise KeyError(topic)

    def should_replicate_topic(self, topic: str) -> object:
        return 1
