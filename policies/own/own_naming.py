"""Names of topics by a policy that a Python package provides; MM2's defaults for what it leaves open."""

import re

from policies.naming import DefaultNaming
from policies.own.own_policy import OwnPolicy, OwnPolicyError
from policies.own.protocols import ReplicationPolicy

TOPIC_NAME = re.compile(r"[a-zA-Z0-9._\-]{1,249}")
"""Topic names that Kafka accepts (Topic.validate)."""


class OwnNaming(DefaultNaming):
    """The names of one policy. Every method raises OwnPolicyError if the policy fails, or answers nonsense."""

    shows_source = False

    def __init__(
        self, own: OwnPolicy[ReplicationPolicy], separator: str = ".", *, internal_separator: bool = True
    ) -> None:
        super().__init__(separator, internal_separator=internal_separator)
        self._own = own

    @property
    def policy(self) -> str:
        """The name of the policy."""
        return self._own.name

    def remote_topic(self, source_alias: str, topic: str) -> str:
        """Return the target's name of a source topic."""
        found = self._name("format_remote_topic", source_alias, topic)
        if found is None:
            raise OwnPolicyError(self.policy, "format_remote_topic", f"no name for {topic!r}")
        return found

    def topic_source(self, topic: str) -> str | None:
        """Return the alias that a name shows."""
        found = self._own.asked(self._own.made.topic_source, topic)
        if found is not None and not isinstance(found, str):
            raise OwnPolicyError(self.policy, "topic_source", f"{found!r} for {topic!r} is no alias")
        return found

    def upstream_topic(self, topic: str) -> str | None:
        """Return the name on the cluster that a topic was copied from."""
        return self._name("upstream_topic", topic)

    def heartbeats_topic(self) -> str:
        """Return the policy's name of it, or `heartbeats`."""
        return self._optional("heartbeats_topic") or super().heartbeats_topic()

    def offset_syncs_topic(self, alias: str) -> str:
        """Return the policy's name of it, or MM2's."""
        return self._optional("offset_syncs_topic", alias) or super().offset_syncs_topic(alias)

    def checkpoints_topic(self, alias: str) -> str:
        """Return the policy's name of it, or MM2's."""
        return self._optional("checkpoints_topic", alias) or super().checkpoints_topic(alias)

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Whether a topic is a heartbeats topic, copied any number of times."""
        return self.original_topic(topic) == self.heartbeats_topic()

    def is_internal_topic(self, topic: str) -> bool:
        """Whether a topic is never copied: what MM2's default leaves out, and what the policy leaves out too."""
        method = getattr(self._own.made, "is_internal_topic", None)
        return super().is_internal_topic(topic) or (method is not None and self._own.says(method, topic))

    def original_topic(self, topic: str) -> str:
        """Return the name that a topic had where it was first written. Raises OwnPolicyError for names in a circle."""
        seen = {topic}
        while (upstream := self.upstream_topic(topic)) is not None and upstream != topic:
            if upstream in seen:
                raise OwnPolicyError(self.policy, "upstream_topic", f"{topic!r} leads back to {upstream!r}")
            seen.add(upstream)
            topic = upstream
        return topic

    def _optional(self, method: str, *arguments: str) -> str | None:
        return self._name(method, *arguments) if hasattr(self._own.made, method) else None

    def _name(self, method: str, *arguments: str) -> str | None:
        found = self._own.asked(getattr(self._own.made, method), *arguments)
        if found is not None and not (isinstance(found, str) and TOPIC_NAME.fullmatch(found)):
            raise OwnPolicyError(self.policy, method, f"{found!r} for {arguments[-1:]} is not allowed as a topic name")
        return found
