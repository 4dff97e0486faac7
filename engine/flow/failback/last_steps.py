"""Ends a failback: moves the groups, restores configs, lets the reverse flow run."""

from collections.abc import Mapping, Sequence
from functools import partial

from engine.core.position.position import Position
from engine.flow.failback.copying import positions_of
from engine.flow.failback.errors import NotStored
from engine.flow.failback.first_steps import restored
from engine.flow.failback.group_moves import Commits, GroupMoves
from engine.flow.failback.rows import (
    BEFORE,
    COMMITS,
    GROUPS,
    UNREAD,
    GroupCommit,
    LaneRow,
    LateRow,
    UnreadGroup,
    kept_lane,
)
from engine.flow.failback.step import FailbackStep
from engine.flow.groups.map_chain import ChainedMaps, KnownStints, NotedMaps, PartedOrder
from engine.flow.lane.bisection import offsets_by_leaders
from engine.flow.operations.driver import Facts, StepRun
from engine.flow.operations.stints import CLOSED_NOTES, START_NOTES, TOPICS_NOTES, ClosedRow, StoredStart
from engine.flow.ports.ports import EARLIEST, Cluster
from engine.flow.surveys.log_sizes import bytes_from
from policies.dr.lent_config import TOMBSTONES
from policies.model import TopicPartition


class MoveGroups(FailbackStep):
    """Commits the place of each group on the source."""

    async def do(self, run: StepRun) -> Facts:
        """See Step."""
        world, rows, late = self.world, self.rows(run), self.late(run)
        noted = {row.lane: row for row in run.notes(CLOSED_NOTES, ClosedRow) or ()}
        forward = ChainedMaps(world.forward_maps(), KnownStints(NotedMaps(), await world.chains(noted)))
        back = world.back_maps()
        moves = GroupMoves(world.groups, world.source.groups, world.target.groups, forward, back)
        run.assure()
        here = await _starts(world.source.cluster, [row.source for row in rows])
        there = await _starts(world.target.cluster, [row.target for row in rows])
        kept = [kept_lane(row, late[row.source], here.get(row.source, 0), there.get(row.target, 0)) for row in rows]
        moved = await moves.move(kept, _commits(run, COMMITS), partial(_begun, run))
        await run.keep(GROUPS, list(moved.moved))
        await run.keep(UNREAD, [UnreadGroup(group, why) for group, why in sorted(moved.failed.items())])
        groups = {one.group for one in moved.moved}
        unequal = {one.group for one in moved.moved if not one.is_equal} | moved.failed.keys()
        return {"groups": len(groups | unequal), "unequal": len(unequal)}


async def _starts(cluster: Cluster, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    led = await cluster.leaders(partitions) if partitions else {}
    return await offsets_by_leaders(cluster, led, EARLIEST)


async def _begun(run: StepRun, now: Commits) -> Commits:
    """Store the commits on the source before this step makes its own, and return them as they were then."""
    noted = _commits(run, BEFORE)
    before = {group: dict(commits) | noted.get(group, {}) for group, commits in now.items()}
    if any(noted.get(group) != commits for group, commits in before.items()):
        rows = [
            GroupCommit(group, *where, offset)
            for group, commits in (noted | before).items()
            for where, offset in commits.items()
        ]
        await run.keep(BEFORE, rows)
    return before


def _commits(run: StepRun, notes: str) -> dict[str, dict[TopicPartition, int]]:
    """Return the commits on the source, by group, that are stored under a name."""
    found: dict[str, dict[TopicPartition, int]] = {}
    for one in run.notes(notes, GroupCommit) or ():
        found.setdefault(one.group, {})[TopicPartition(one.topic, one.partition)] = one.offset
    return found


class Close(FailbackStep):
    """Restores the retention, and what the failover had lent to the target, and lets the reverse flow run.

    Where late copies lie, the map of the reverse flow begins behind them: a group that has not passed them yet must get
    no translation, which would skip them on the source. What lies before all that is new is translated by the maps of
    the stints before, so it is stored where this one begins.
    """

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises NotStored."""
        world, rows, late = self.world, self.rows(run), self.late(run)
        written = await self._written(rows, late)
        stored = await positions_of(world.source.cluster, world.back)
        behind = {
            row.target: stored[row.target].source_next - 1
            for row in rows
            if late[row.source].echoes and not row.made and row.target in stored
        }
        begun = {one.lane: one.next for one in run.notes(START_NOTES, StoredStart) or ()}
        if not begun:
            copied = await positions_of(world.target.cluster, world.forward)
            await run.keep(START_NOTES, _starts_of(rows, late, behind, copied))
        await run.keep(TOPICS_NOTES, [world.map_topics])
        behind = {lane: last for lane, last in behind.items() if begun.get(lane, last + 1) == last + 1}
        run.assure()
        ends = {lane: stored[lane].target_next for lane in behind}
        if failed := await world.alter_back(behind, ends):
            raise NotStored(f"positions of {world.back.flow}", failed)
        await restored(world.source.settings, run)
        if kept := await world.take_back():
            raise NotStored(f"the {TOMBSTONES} of target topics", dict(kept))
        await world.guard.admit()
        return written

    async def _written(self, rows: Sequence[LaneRow], late: Mapping[TopicPartition, LateRow]) -> dict[str, int]:
        """Count the bytes that were written to the source, and what a copy of everything would have been."""
        source, target = self.world.source.cluster, self.world.target.cluster
        back = await bytes_from(source, {row.source: 0 if row.made else late[row.source].source_end for row in rows})
        full = await bytes_from(target, {row.target: -1 for row in rows})
        return {"bytes_to_source": back, "bytes_of_full_copy": full}


def _starts_of(
    rows: Sequence[LaneRow],
    late: Mapping[TopicPartition, LateRow],
    behind: Mapping[TopicPartition, int],
    copied: Mapping[TopicPartition, Position],
) -> list[StoredStart]:
    """Return where the reverse flow begins, but for topics that were made anew: nothing of before is there any more.

    `behind`: the last offset before its map, where late copies lie. By their keys, the flow's own map does not have
    them, so no offset of the target says what of D lies behind it. `copied`: the positions of the flow. If its mirror
    was killed, one may end before the copy does, and so does its map.
    """
    found: list[StoredStart] = []
    for row in rows:
        known = copied.get(row.source)
        if known is None or row.made or (row.is_keyed and late[row.source].echoes):
            continue
        start, parted = row.target_next or -1, None
        if row.target in behind:
            start, parted = behind[row.target] + 1, PartedOrder(row.target_next, row.split)
        elif known.source_next < row.split:
            parted = PartedOrder(known.target_next, known.source_next)
        found.append(StoredStart(*row.target, start, parted))
    return found
