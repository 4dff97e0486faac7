"""Commits where groups start in the topics that producers will write to on the target, if copies have a prefix.

A group that has no offset there would start by `auto.offset.reset`: at the end it would skip what the producers write
before it looks.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from engine.base.errors import GroupActive, MirrorError
from engine.flow.operations.driver import Facts, StepRun
from engine.services.dr.move_log import start_of
from engine.services.dr.switchover.steps import DRAINED_NOTES
from engine.services.dr.switchover.world import DrainedEnd, SwitchoverWorld
from engine.state.state import MovedTopic
from policies.model import TopicPartition

GROUP_START_NOTES = "group-starts"


class GroupStart(msgspec.Struct, frozen=True):
    """A start offset of a group in a topic of the target; `why`: why it could not be committed, empty if it was."""

    group: str
    topic: str
    partition: int
    offset: int
    why: str = ""


async def mirrored_groups(world: SwitchoverWorld) -> dict[str, frozenset[str]]:
    """Return the groups that the flow mirrors, each with the topics that it has commits in on the source."""
    selection = world.flow.groups.selection
    listed = await world.source_groups.list_groups()
    groups = sorted(one.group for one in listed.groups if selection.wants(one.group))
    commits = await world.source_groups.offsets(groups)
    return {group: frozenset(lane.topic for lane in commits.found.get(group, {})) for group in groups}


async def start_groups(
    run: StepRun, world: SwitchoverWorld, read: Mapping[str, Collection[str]], moved: Mapping[str, MovedTopic]
) -> Facts:
    """Commit a start offset for groups in the drained topics that they read, where they have none.

    `read`: the groups, with the topics that each reads. `moved`: topics whose producers have moved. Raises
    BrokerUnreachable, ConnectionLost, KafkaRefusal.
    """
    topics = {row.topic for row in run.notes(DRAINED_NOTES, DrainedEnd) or ()}
    there = await world.target_settings.topics(sorted(topics))
    lanes = [TopicPartition(name, at) for name, state in there.items() for at in range(state.partitions)]
    ends = await producer_starts(world, lanes, moved)
    known = await world.target_groups.offsets(list(read))
    rows: list[GroupStart] = []
    for group, names in read.items():
        stored = known.found.get(group, {})
        missing = {lane: (end, "") for lane, end in ends.items() if lane.topic in names and lane not in stored}
        if missing:
            rows += await _commit(run, world, group, missing)
    await run.keep(GROUP_START_NOTES, rows)
    failed = sum(bool(row.why) for row in rows)
    return {"producer_topics_there": len(there), "group_starts": len(rows) - failed, "group_starts_failed": failed}


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
