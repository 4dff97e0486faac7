"""The data types that all other parts share: topic partitions, flows, lanes, partition sets."""

from typing import NamedTuple

import msgspec


class TopicPartition(NamedTuple):
    """One partition of one topic, as `topic-partition` in text."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class PartitionRow(msgspec.Struct, frozen=True):
    """What a stored row about one partition begins with."""

    topic: str
    partition: int

    @property
    def lane(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


class FlowName(NamedTuple):
    """A direction of copying, `source->target`, by cluster alias."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


class LaneName(NamedTuple):
    """One source partition and the target partition of the same number."""

    source: TopicPartition
    target: TopicPartition

    def __str__(self) -> str:
        return str(self.source)


class PartitionSet(msgspec.Struct, frozen=True, kw_only=True):
    """A stable group of lanes of one flow with one owner at a time.

    `set_id` reads `A->B/017`; `epoch` grows with every assignment to an owner.
    """

    set_id: str
    flow: FlowName
    epoch: int
    lanes: tuple[LaneName, ...]
