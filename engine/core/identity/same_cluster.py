"""Decides by metadata whether two aliases lead to one cluster.

| Both answers have | Conclusion |
| --- | --- |
| different cluster ids | two |
| a broker at the same address | one: a connection to it reaches that broker under either alias |
| topics of the same name, all with different ids | two, whatever their cluster ids: images ship constant ones |
| topics with the same ids, most partitions at the same leader epoch | one: topic ids are random 128 bits (KIP-516) |
| topics with the same ids, most partitions at other leader epochs | not known: copied disks look like that |
| the same cluster id, no topic id in common | not known |
| no cluster id | two, as far as can be known |

Brokers that start from copied disks elect every leader again, and each election raises the leader epoch. If both
clusters were started the same number of times since the copy, the epochs are equal again. Then only the administrator
of the clusters can say.
"""

from collections.abc import Mapping
from enum import Enum
from uuid import UUID

import msgspec

from policies.words import counted

_NONE = UUID(int=0)


class Sameness(Enum):
    """The possible answers for two aliases."""

    ONE = "one cluster"
    TWO = "two clusters"
    UNKNOWN = "not known"


class TopicFacts(msgspec.Struct, frozen=True):
    """A topic's id, and the leader epoch of each partition."""

    id: UUID
    epochs: Mapping[int, int]


class ClusterFacts(msgspec.Struct, frozen=True):
    """The metadata of a cluster under one alias; `addresses`: the addresses that its brokers advertise."""

    cluster_id: str
    addresses: frozenset[tuple[str, int]]
    topics: Mapping[str, TopicFacts]


class SamenessFinding(msgspec.Struct, frozen=True):
    """The answer and the evidence for it; `why` is empty for two clusters."""

    sameness: Sameness
    why: str = ""
    by_address: bool = False
    """Whether the evidence is a broker's address, and not ids, which copied disks have in common."""


TWO = SamenessFinding(Sameness.TWO)


def judge(one: ClusterFacts, other: ClusterFacts) -> SamenessFinding:
    """Judge by the table above."""
    if one.cluster_id != other.cluster_id and one.cluster_id and other.cluster_id:
        return TWO
    if shared := one.addresses & other.addresses:
        host, port = min(shared)
        return SamenessFinding(Sameness.ONE, f"both have a broker at {host}:{port}", by_address=True)
    named = [
        (name, topic, other.topics[name])
        for name, topic in one.topics.items()
        if topic.id != _NONE and name in other.topics and other.topics[name].id != _NONE
    ]
    same = {name: (topic, twin) for name, topic, twin in named if topic.id == twin.id}
    if same:
        return _by_topics(same, all_alike=len(same) == len(named))
    if named or not one.cluster_id or not other.cluster_id:
        return TWO
    return SamenessFinding(Sameness.UNKNOWN, f"both report cluster id {one.cluster_id}, and have no topic in common")


def _by_topics(same: Mapping[str, tuple[TopicFacts, TopicFacts]], *, all_alike: bool) -> SamenessFinding:
    pairs = [
        (epoch, twin.epochs[partition])
        for topic, twin in same.values()
        for partition, epoch in topic.epochs.items()
        if partition in twin.epochs
    ]
    unmoved = sum(epoch == twin for epoch, twin in pairs)
    name = min(same)
    more = f" and {counted(len(same) - 1, 'more topic')}" if len(same) > 1 else ""
    shown = f"topic {name!r}{more} of the same id {same[name][0].id}"
    if all_alike and 2 * unmoved > len(pairs):
        return SamenessFinding(Sameness.ONE, f"both have {shown}")
    return SamenessFinding(
        Sameness.UNKNOWN, f"both have {shown}, but different leader epochs, as a cluster started from copied disks has"
    )
