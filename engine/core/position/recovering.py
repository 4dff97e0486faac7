"""Decides where a lane continues if its topics or clusters are not the ones that its position was written for."""

import msgspec

from engine.core.position.owning import LaneIdentity
from engine.core.position.position import Position
from engine.core.position.resume import RENEWED, ResumePoint
from policies.sync.topic_faults import Renewed


def renewed_side(stored: Position, found: LaneIdentity) -> Renewed | None:
    """Return which topics were re-created since the position was written; None if neither was."""
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
    """Return where a lane continues after its topics were re-created. `whole`: from the first record on."""
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
    """Return where a lane continues that may leave out source offsets `first` to `last` (inclusive).

    The lane skips a hole ahead of it. If the source ends or diverges before the lane's position, all records from there
    on are new, so the lane goes back to that offset.
    """
    continues_at = last + 1 if first >= found.source_next else first
    return msgspec.structs.replace(found, source_next=continues_at, cut=min(found.source_next, continues_at))


def _differ(expected: str, found: str) -> bool:
    return bool(expected) and bool(found) and expected != found
