"""The newest leader of each partition that any broker named, so that raymirror ignores brokers with old metadata.

A broker that was frozen, or is cut off from its controller, names previous leaders, also itself. Epochs of one topic
only grow, so the lower epoch is the older one (KIP-320; Java's Metadata class does the same).
"""

from collections.abc import Iterable, Sequence

import msgspec

from engine.kafka.client.metadata import PartitionMeta, TopicMeta


class LeaderEpochs:
    """The newest metadata of each topic. Topics without an id are left out: they may have been created again."""

    def __init__(self) -> None:
        self._known: dict[str, TopicMeta] = {}

    def newest(self, name: str, told: TopicMeta) -> TopicMeta:
        """Return a topic as `told`, but with those partitions of earlier answers that are newer."""
        if not told.topic_id.int:
            return told
        known = self._known.get(name)
        if known is not None and known.topic_id == told.topic_id:
            told = msgspec.structs.replace(told, partitions=_newest(known.partitions, told.partitions))
        self._known[name] = told
        return told

    def epochs(self, name: str) -> dict[int, int]:
        """Return the known leader epochs of a topic, by partition."""
        known = self._known.get(name)
        return {} if known is None else {index: one.leader_epoch for index, one in known.partitions.items()}

    def all_say(self, name: str, told: Sequence[TopicMeta], before: dict[int, int]) -> None:
        """Replace a topic by the answers of all brokers: an epoch that no broker knows is from a lost cluster state.

        `before`: the epochs known before the question. If they grew since then, this changes nothing.
        """
        known = self._known.get(name)
        if known is None or self.epochs(name) != before or any(one.topic_id != known.topic_id for one in told):
            return
        newest: dict[int, PartitionMeta] = {}
        for one in told:
            newest = _newest(newest, one.partitions)
        self._known[name] = msgspec.structs.replace(known, partitions=newest)

    def keep(self, names: Iterable[str]) -> None:
        """Forget all other topics."""
        self._known = {name: self._known[name] for name in names if name in self._known}


def _newest(known: dict[int, PartitionMeta], told: dict[int, PartitionMeta]) -> dict[int, PartitionMeta]:
    newest = dict(known)
    for partition, found in told.items():
        before = known.get(partition)
        if before is None or found.leader_epoch >= before.leader_epoch:
            newest[partition] = found
    return newest
