"""Decides where a lane continues whose source or topics are not what its position was written for."""

import msgspec

from engine.core.position.owning import LaneIdentity
from engine.core.position.position import Position
from engine.core.position.resume import RENEWED, ResumePoint
from policies.sync.topic_faults import Renewed


def renewed_side(stored: Position, found: LaneIdentity) -> Renewed | None:
    """Return which topics were deleted and created again since the position was written; None: neither."""
    source = _differ(stored.source_topic_id, found.source_topic_id)
    target = _differ(stored.target_topic_id, found.target_topic_id)
    if source and target:
        return Renewed.BOTH
    return Renewed.SOURCE if source else Renewed.TARGET if target else None


def is_other_cluster(stored: Position, found: LaneIdentity) -> bool:
    """Whether a cluster is not the one that the position was written for."""
    source = _differ(stored.source_cluster_id, found.source_cluster_id)
    return source or _differ(stored.target_cluster_id, found.target_cluster_id)


def renewed_point(
    source_next: int, target_end: int, foreign: tuple[tuple[int, int], ...], *, whole: bool
) -> ResumePoint:
    """Return where a lane continues with topics that were created again. `whole`: from the first record on."""
    return ResumePoint(
        source_next=source_next,
        target_next=target_end,
        sequence=0,
        how=RENEWED,
        tail_records=0,
        foreign=foreign,
        whole=whole,
    )


def behind_gap(found: ResumePoint, first: int, last: int) -> ResumePoint:
    """Return where a lane continues that may leave source offsets `first` to `last` (inclusive) out.

    A hole ahead of the lane is passed. Where the source ends, or diverged, before the lane's place, everything from
    there on is new: the lane goes back to it.
    """
    continues_at = last + 1 if first >= found.source_next else first
    return msgspec.structs.replace(found, source_next=continues_at, cut=min(found.source_next, continues_at))


def _differ(expected: str, found: str) -> bool:
    return bool(expected) and bool(found) and expected != found
