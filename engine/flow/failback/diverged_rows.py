"""Looks again at what only the source has: which partitions have grown since they were counted, and what they hold."""

from collections.abc import Mapping, Sequence

from engine.flow.failback.counting import survey, topics_of
from engine.flow.failback.errors import FailbackReason, FailbackRefused
from engine.flow.failback.rows import LaneRow
from engine.flow.failback.world import FailbackWorld
from engine.flow.surveys.separation_survey import SurveyedPartition
from engine.flow.topic_logs.last_known import KnownLane
from policies.model import TopicPartition

ROUNDS = 5
"""How often the source may have grown while what it has alone is exported or copied."""


def grown(before: Mapping[TopicPartition, int], now: Mapping[TopicPartition, int]) -> dict[str, str]:
    """Say of each partition whose end has moved where it ended, and where it ends now."""
    return {
        str(one): f"it ended at {end}, and ends at {now[one]} now" for one, end in before.items() if now[one] != end
    }


def counted_ends(rows: Sequence[LaneRow]) -> dict[TopicPartition, int]:
    """Return where the source's partitions ended when they were counted."""
    return {row.source: row.source_end for row in rows}


async def diverged_now(world: FailbackWorld, rows: Sequence[LaneRow]) -> list[SurveyedPartition]:
    """Survey what the source has behind the splits of the rows now, also while that is copied late.

    Raises FailbackRefused for a partition that cannot be read, ConnectionLost, BrokerUnreachable, KafkaRefusal.
    """
    found = await survey(world, await topics_of(world), [_known(row) for row in rows]) if rows else []
    unread = [one.separation for one in found if one.separation.unknown]
    if unread:
        raise FailbackRefused([FailbackReason("not-judged", str(one.lane.source), one.unknown) for one in unread])
    return found


def _known(row: LaneRow) -> KnownLane:
    """Return a row as a lane that the map does not move on: late copies lie behind the split."""
    return KnownLane(
        lane=row.source, target=row.target, source_next=row.split, at_ms=-1, ours=False, target_next=row.target_next
    )
