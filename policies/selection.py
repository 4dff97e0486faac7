"""Selects the topics of a flow: MM2's filter, topics that are never copied, and cycles."""

from collections.abc import Iterable, Mapping
from copy import copy

from policies.model import FlowName, LaneName, TopicPartition
from policies.naming import DefaultNaming
from policies.own.own_policy import OwnPolicy
from policies.own.protocols import TopicFilter
from policies.patterns import PatternList

DEFAULT_TOPICS = (".*",)
DEFAULT_EXCLUDE = (r"mm2.*\.internal", r".*\.replica", r"__.*")
"""The default of MM2 4.3.1; older releases exclude every name that ends in `internal` (KIP-1074)."""


class TopicSelection:
    """The topics of one flow; `never`: the topics that hold positions. Raises BadPattern."""

    def __init__(
        self,
        flow: FlowName,
        naming: DefaultNaming,
        include: Iterable[str] = DEFAULT_TOPICS,
        exclude: Iterable[str] = DEFAULT_EXCLUDE,
        *,
        heartbeats: bool = True,
        never: Iterable[str] = (),
    ) -> None:
        self.flow = flow
        self.naming = naming
        self.include = PatternList(include)
        self.exclude = PatternList(exclude)
        self.heartbeats = heartbeats
        """Whether heartbeats topics are copied, whatever the patterns say."""
        self._never = frozenset(never)
        self.own: OwnPolicy[TopicFilter] | None = None

    def chosen_by(self, own: OwnPolicy[TopicFilter] | None) -> "TopicSelection":
        """Return the same selection with a filter of the user in place of the patterns, if there is one."""
        chosen = copy(self)
        chosen.own = own
        return chosen

    def wants(self, topic: str) -> bool:
        """Whether the flow copies a source topic."""
        return self.why_not(topic) is None

    def why_not(self, topic: str) -> str | None:
        """Return why a topic is not copied; None if it is."""
        if self.naming.is_internal_topic(topic) or topic in self._never:
            return "internal topic"
        if self.is_cycle(topic):
            return f"it came from {self.flow.target}"
        if self.heartbeats and self.naming.is_heartbeats_topic(topic):
            return None
        if self.own is not None:
            wanted = self.own.says(self.own.made.should_replicate_topic, topic)
            return None if wanted else f"not chosen by {self.own.name}"
        if not self.include.matches(topic):
            return "not in topics"
        if self.exclude.matches(topic):
            return "in topics.exclude"
        return None

    def lanes(self, partitions: Mapping[str, int]) -> list[LaneName]:
        """Return the lanes of the topics that the flow copies; `partitions`: the number for each source topic."""
        return [
            LaneName(TopicPartition(topic, number), TopicPartition(self.target_topic(topic), number))
            for topic, count in sorted(partitions.items())
            if self.wants(topic)
            for number in range(count)
        ]

    def is_cycle(self, topic: str) -> bool:
        """Whether a topic's name shows that it was on the target already, at any hop."""
        source = self.naming.topic_source(topic)
        if source is None:
            return False
        if source == self.flow.target:
            return True
        upstream = self.naming.upstream_topic(topic)
        return upstream is not None and upstream != topic and self.is_cycle(upstream)

    def target_topic(self, topic: str) -> str:
        """Return the target's name of a source topic."""
        return self.naming.remote_topic(self.flow.source, topic)
