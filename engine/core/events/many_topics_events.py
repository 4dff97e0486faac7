"""Events of one round of discovery about many topics: each stands for an event of its own for each of them."""

from typing import ClassVar

from engine.core.events.event_base import Event


class ManyTopicsEvent(Event, frozen=True, kw_only=True):
    """An event of `count` source topics; `topics`: the names of the first, and how many more there are."""

    topics: str
    count: int

    @property
    def about(self) -> str:
        """Name the first topics."""
        return self.topics


class TopicsCreated(ManyTopicsEvent, frozen=True, kw_only=True, tag="topics_created"):
    """Many target topics were created, or got more partitions."""

    def text(self) -> str:
        return f"{self.topics}: one round of discovery created or grew the target topics of {self.count:,} topics"


class TopicsDiffer(ManyTopicsEvent, frozen=True, kw_only=True, tag="topics_differ"):
    """Many topics differ from their target topics in ways that change the copied data; `first`: the first case."""

    severity: ClassVar[str] = "warning"
    first: str

    def text(self) -> str:
        return (
            f"{self.topics}: {self.count:,} differences between topics and their target topics change the copied data;"
            f" the first: {self.first}"
        )


class TopicsFailed(ManyTopicsEvent, frozen=True, kw_only=True, tag="topics_failed"):
    """Many topics could not be prepared on the target; copying of the others continues. `first`: the first reason."""

    severity: ClassVar[str] = "error"
    first: str

    def text(self) -> str:
        return f"{self.topics}: {self.count:,} topics could not be prepared; the first: {self.first}"


ManyTopics = TopicsCreated | TopicsDiffer | TopicsFailed
