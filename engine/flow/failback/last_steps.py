"""Ends a failback: moves the groups, restores configs, lets the reverse flow run."""

from collections.abc import Mapping, Sequence

from engine.core.reports.log_content import ContentRange
from engine.flow.failback.copying import positions_of
from engine.flow.failback.errors import NotStored
from engine.flow.failback.first_steps import restored
from engine.flow.failback.group_moves import GroupMoves
from engine.flow.failback.rows import GROUPS, UNREAD, LaneRow, LateRow, UnreadGroup, kept_lane
from engine.flow.failback.step import FailbackStep
from engine.flow.lane.bisection import offsets_by_leaders
from engine.flow.operations.driver import Facts, StepRun
from engine.flow.ports.ports import EARLIEST, LATEST, Cluster
from policies.dr.lent_config import TOMBSTONES
from policies.model import TopicPartition

_MOST_BYTES = 16 * 1024 * 1024


class MoveGroups(FailbackStep):
    """Commits the place of each group on the source."""

    async def do(self, run: StepRun) -> Facts:
        """See Step."""
        world, rows, late = self.world, self.rows(run), self.late(run)
        forward, back = world.forward_maps(), world.back_maps()
        moves = GroupMoves(world.groups, world.source.groups, world.target.groups, forward, back)
        run.assure()
        moved = await moves.move([kept_lane(row, late[row.source]) for row in rows])
        await run.keep(GROUPS, list(moved.moved))
        await run.keep(UNREAD, [UnreadGroup(group, why) for group, why in sorted(moved.failed.items())])
        groups = {one.group for one in moved.moved}
        unequal = {one.group for one in moved.moved if not one.is_equal} | moved.failed.keys()
        return {"groups": len(groups | unequal), "unequal": len(unequal)}


class Close(FailbackStep):
    """Restores the retention, and what the failover had lent to the target, and lets the reverse flow run.

    Where late copies lie, the map of the reverse flow begins behind them: a group that has not passed them yet must get
    no translation, which would skip them on the source.
    """

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises NotStored."""
        world, rows, late = self.world, self.rows(run), self.late(run)
        written = await self._written(rows, late)
        stored = await positions_of(world.source.cluster, world.back)
        behind = {
            row.target: stored[row.target].source_next - 1
            for row in rows
            if late[row.source].echoes and row.target in stored
        }
        run.assure()
        if failed := await world.alter_back(behind):
            raise NotStored(f"positions of {world.back.flow}", failed)
        await restored(world.source.settings, run)
        if kept := await world.take_back():
            raise NotStored(f"the {TOMBSTONES} of target topics", dict(kept))
        await world.guard.admit()
        return written

    async def _written(self, rows: Sequence[LaneRow], late: Mapping[TopicPartition, LateRow]) -> dict[str, int]:
        """Count the bytes that were written to the source, and what a copy of everything would have been."""
        source, target = self.world.source.cluster, self.world.target.cluster
        back = await _bytes(source, {row.source: late[row.source].source_end for row in rows})
        return {"bytes_to_source": back, "bytes_of_full_copy": await _bytes(target, {row.target: -1 for row in rows})}


async def _bytes(cluster: Cluster, firsts: Mapping[TopicPartition, int]) -> int:
    """Return about how many bytes of records the partitions hold from these offsets on; -1: from their start."""
    led = await cluster.leaders(list(firsts)) if firsts else {}
    ends = await offsets_by_leaders(cluster, led, LATEST)
    starts = await offsets_by_leaders(cluster, led, EARLIEST)
    total = 0
    for one, first in firsts.items():
        begin = max(first, starts.get(one, 0))
        if begin < ends.get(one, -1):
            wanted = ContentRange(first=begin, end=ends[one], since=begin, most_bytes=_MOST_BYTES)
            total += (await cluster.read_content(one, wanted)).projected(begin).bytes
    return total
