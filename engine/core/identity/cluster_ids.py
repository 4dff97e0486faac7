"""Decides by ids and logs whether a cluster is the one that stored positions were written for.

| Evidence | Conclusion |
| --- | --- |
| another cluster id than the position's | another cluster |
| the same cluster id | nothing by itself: images ship constant ids, snapshots copy them |
| another id of one topic, the same ids of others | the same cluster, in which that topic was re-created |
| other ids of all topics | another cluster, or one that started again without its data |
| a topic of the same id, with its end or its leader epoch below the position's | an earlier state of the cluster |
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from engine.core.position.position import Position
from policies.model import TopicPartition


def other_than(found: str, named: Iterable[str]) -> str:
    """Return the id in most positions if none has the id that was found; else an empty text."""
    counts = Counter(one for one in named if one)
    return "" if not found or not counts or found in counts else counts.most_common(1)[0][0]


def doubt_of_ids(position: Position, source_id: str, target_id: str) -> str:
    """Say why cluster ids forbid deleting the copy of this position; empty if they do not."""
    for side, stored, found in (
        ("source", position.source_cluster_id, source_id),
        ("target", position.target_cluster_id, target_id),
    ):
        if not found:
            return f"the {side} cluster reports no cluster id"
        if not stored:
            return f"the stored position has no {side} cluster id"
        if stored != found:
            return f"the stored position was written for {side} cluster {stored}, but this is cluster {found}"
    if source_id == target_id:
        return f"source and target report the same cluster id {source_id}, which proves nothing"
    return ""


def behind(
    positions: Mapping[TopicPartition, Position],
    ends: Mapping[TopicPartition, int],
    epochs: Mapping[TopicPartition, int],
) -> str:
    """Say which source partition is behind its own position, by end offset or leader epoch; empty if none is.

    While a topic keeps its id, its ends fall only by an unclean election, and its leader epochs never fall (KIP-101).
    """
    for lane, position in positions.items():
        end, epoch = ends.get(lane, position.source_next), epochs.get(lane, -1)
        if end < position.source_next:
            return f"{lane} ends at offset {end} on the source, but was copied up to {position.source_next}"
        if 0 <= epoch < position.source_leader_epoch:
            return f"{lane} has leader epoch {epoch} on the source, but was copied at {position.source_leader_epoch}"
    return ""
