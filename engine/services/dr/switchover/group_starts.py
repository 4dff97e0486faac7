"""Commits where groups start in the topics that producers will write to on the target, if copies have a prefix.

A group that has no offset there would start by `auto.offset.reset`: at the end it would skip what the producers write
before it looks.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from engine.base.errors import GroupActive, MirrorError
from engine.flow.groups.status import selected
from engine.flow.operations.driver import Facts, StepRun
from engine.services.dr.move_log import start_of
from engine.services.dr.switchover.steps import DRAINED_NOTES
from engine.services.dr.switchover.world import DrainedEnd, SwitchoverWorld
from engine.state.state import MovedTopic
from policies.model import TopicPartition

GROUP_START_NOTES = "group-starts"


class GroupStart(msgspec.Struct, frozen=True):
    """A start offset of a group in a topic of the target; `why`: why it could not be committed, empty if it was.

    Of a group that could not be read there is one without a topic.
    """

    group: str
    topic: str
    partition: int
    offset: int
    why: str = ""


class ReadingGroups(msgspec.Struct, frozen=True):
    """Groups with the topics that each reads on the source; `failed`: those that could not be read there, and why."""

    topics: Mapping[str, Collection[str]]
    failed: Mapping[str, str] = {}


async def mirrored_groups(world: SwitchoverWorld) -> ReadingGroups:
    """Return the groups that the flow mirrors, each with the topics that it has commits in on the source."""
    groups, _, unheard = await selected(world.source_groups, world.flow.groups.selection)
    commits = await world.source_groups.offsets(sorted(groups))
    topics = {group: frozenset(lane.topic for lane in found) for group, found in commits.found.items()}
    return ReadingGroups(topics, unheard | commits.failed)


async def start_groups(
    run: StepRun, world: SwitchoverWorld, read: ReadingGroups, moved: Mapping[str, MovedTopic]
) -> Facts:
    """Commit a start offset for groups in the drained topics that they read, where they have none.

    A group whose commits on the target are not known gets none: it may have some, and go on from there. `moved`: topics
    whose producers have moved. Raises BrokerUnreachable, ConnectionLost, KafkaRefusal.
    """
    topics = {row.topic for row in run.notes(DRAINED_NOTES, DrainedEnd) or ()}
    there = await world.target_settings.topics(sorted(topics))
    lanes = [TopicPartition(name, at) for name, state in there.items() for at in range(state.partitions)]
    ends = await producer_starts(world, lanes, moved)
    known = await world.target_groups.offsets(list(read.topics))
    failed = {**read.failed, **known.failed}
    rows = [GroupStart(group, "", -1, -1, why) for group, why in sorted(failed.items())]
    for group, stored in known.found.items():
        names = read.topics[group]
        missing = {lane: (end, "") for lane, end in ends.items() if lane.topic in names and lane not in stored}
        if missing:
            rows += await _commit(run, world, group, missing)
    await run.keep(GROUP_START_NOTES, rows)
    unmade = sum(bool(row.why) for row in rows)
    return {"producer_topics_there": len(there), "group_starts": len(rows) - unmade, "group_starts_failed": unmade}


async def producer_starts(
    world: SwitchoverWorld, lanes: Collection[TopicPartition], moved: Mapping[str, MovedTopic]
) -> dict[TopicPartition, int]:
    """Return where producers begin in their topics of the target: at the ends, or where they began when they moved.

    Raises NotDrained if an end is not known.
    """
    if not lanes:
        return {}
    ends = await world.copy_ends(lanes)
    return {lane: start_of(moved.get(lane.topic), lane.partition, end) for lane, end in ends.items()}


async def _commit(
    run: StepRun, world: SwitchoverWorld, group: str, starts: Mapping[TopicPartition, tuple[int, str]]
) -> Sequence[GroupStart]:
    run.assure()
    try:
        refused = await world.target_groups.commit(group, starts)
    except GroupActive as active:
        refused = dict.fromkeys(starts, str(active))
    except MirrorError as failure:
        refused = dict.fromkeys(starts, str(failure))
    return [GroupStart(group, *lane, start, refused.get(lane, "")) for lane, (start, _) in sorted(starts.items())]
