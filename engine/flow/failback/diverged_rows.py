"""Looks again at what only the source has: which partitions have grown since they were counted, and what they hold."""

from collections.abc import Mapping, Sequence

import msgspec

from engine.flow.failback.counting import EXPORT as NO_EXPORT
from engine.flow.failback.counting import survey, topics_of
from engine.flow.failback.errors import FailbackReason, FailbackRefused
from engine.flow.failback.rows import LANES, LATE, LaneRow, LateRow
from engine.flow.failback.world import FailbackWorld
from engine.flow.operations.driver import StepRun
from engine.flow.surveys.separation_survey import SurveyedPartition
from engine.flow.topic_logs.last_known import KnownLane
from policies.dr import advice
from policies.dr.operation_steps import EXPORT
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


async def exported_again(
    world: FailbackWorld,
    run: StepRun,
    rows: Sequence[LaneRow],
    ends: Mapping[TopicPartition, int],
    *,
    deletes: bool = False,
) -> tuple[LaneRow, ...]:
    """Count and export what has grown since, before it is copied or deleted, and store the counts; return all rows.

    `rows`: those of partitions whose topic has not been made anew. `deletes`: nothing else keeps it, so without a
    folder it is refused. Raises FailbackRefused.
    """
    if not grown(counted_ends(rows), ends):
        return tuple(rows)
    found = await diverged_now(world, [row for row in rows if ends[row.source] != row.source_end])
    held = [one for one in found if one.separation.diverged]
    if held and run.choice(EXPORT):
        where, records = await world.export(held, str(run.choice(EXPORT)))
        run.say(f"the source has grown: {records} records of its grown partitions are exported to {where}")
    elif held and deletes:
        raise FailbackRefused([_unexported(one) for one in held])
    elif held:
        run.say("the source has grown, and no folder was named to export that to: it is not exported")
    counts = {one.separation.lane.source: one.separation.diverged for one in found}
    fresh = tuple(
        msgspec.structs.replace(row, source_end=ends[row.source], diverged=counts[row.source])
        if row.source in counts
        else row
        for row in rows
    )
    await keep_rows(run, fresh)
    return fresh


def _unexported(one: SurveyedPartition) -> FailbackReason:
    found = one.separation
    why = (
        f"the source has grown, and only it has {found.diverged} records, which would be deleted: give the same command"
        f" again with {advice.EXPORT.given('DIR')}"
    )
    return FailbackReason(NO_EXPORT, str(found.lane.source), why)


async def keep_rows(run: StepRun, rows: Sequence[LaneRow]) -> None:
    """Store these rows instead of those of the same partitions."""
    known = {row.source: row for row in run.notes(LANES, LaneRow) or ()}
    await run.keep(LANES, list((known | {row.source: row for row in rows}).values()))


async def keep_late(run: StepRun, rows: Sequence[LateRow]) -> None:
    """Store where the late copies of these partitions lie, instead of what was stored of the same ones."""
    known = {(row.topic, row.partition): row for row in run.notes(LATE, LateRow) or ()}
    await run.keep(LATE, list((known | {(row.topic, row.partition): row for row in rows}).values()))
