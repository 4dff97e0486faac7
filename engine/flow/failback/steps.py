"""The steps of a failback, as an operation drives them; `policies/dr/operation_steps.py` has their table.

    source   ==== P ====|== D ==|== N ==|          N: copied by the reverse flow, from `target_next` on
    target   ==== P ====|== N ..D.. N ..|          D: copied late by the flow itself, among what is still being written

Each step may run again after a kill at any point. It relies on three facts. Lanes resume exactly, by their positions
and tails. Until "turn" is done, all that lies behind the split on the source is its own, so it is D. And where the late
copies lie is stored before the reverse flow copies anything, so it leaves out exactly these.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from engine.base.clock import backoff_s, now_s, pause
from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.core.lane.echoes import Echoes
from engine.core.reports.log_content import ContentRange
from engine.flow.failback.copying import copy_until, next_epoch, positions_of
from engine.flow.failback.counting import count, survey, topics_of
from engine.flow.failback.errors import FailbackReason, FailbackRefused, NotStored, SourceWritten
from engine.flow.failback.group_moves import GroupMoves
from engine.flow.failback.late_copies import echoes_of, size_of
from engine.flow.failback.lent_configs import change, give_back
from engine.flow.failback.rows import GROUPS, LANES, LATE, LENT, LaneRow, LateRow, kept_lane
from engine.flow.failback.world import FailbackWorld
from engine.flow.lane.bisection import by_leaders, offsets_by_leaders
from engine.flow.operations.driver import Facts, StepRun
from engine.flow.ports.options import FlowOptions
from engine.flow.ports.ports import EARLIEST, LATEST, Cluster
from engine.flow.topic_logs.last_known import KnownLane
from policies.dr.failback import FailbackChoice
from policies.dr.lent_config import CLEANUP, RETENTION, LentConfig, endless_retention
from policies.model import TopicPartition

CHOICE, EXPORT = "choice", "export"
"""The names of what the operator chooses."""
_ROUNDS = 5
"""How often the source may have grown during a late copy."""
_MOST_BYTES = 16 * 1024 * 1024
_NAMED = 5
_PATIENCE_S = 60.0
"""Seconds for which a step is tried again while a broker does not answer."""
_OPEN_S, _LOOK_S = 300.0, 1.0
"""Seconds to wait for transactions on the target that are open across late copies, and between two looks."""


class _Step:
    """A step of one failback that needs no undo."""

    def __init__(self, world: FailbackWorld) -> None:
        self.world = world

    async def do(self, run: StepRun) -> Facts:
        """See Step."""
        raise NotImplementedError

    async def undo(self, run: StepRun) -> Facts:  # noqa: ARG002
        """See Step: there is nothing to take back."""
        return {}

    # --- what several steps ask ----------------------------------------------------------------------------------

    @staticmethod
    def rows(run: StepRun) -> tuple[LaneRow, ...]:
        """Return the counted partitions."""
        return run.notes(LANES, LaneRow) or ()

    @staticmethod
    def late(run: StepRun) -> dict[TopicPartition, LateRow]:
        """Return the late copies, by source partition."""
        return {TopicPartition(one.topic, one.partition): one for one in run.notes(LATE, LateRow) or ()}

    async def source_ends(self, rows: Sequence[LaneRow]) -> dict[TopicPartition, int]:
        """Ask where the source partitions end. Raises FailbackRefused if one does not say, or is not decided."""
        return await _decided(self.world.source.cluster, [row.source for row in rows], "source")


async def _decided(cluster: Cluster, partitions: Sequence[TopicPartition], side: str) -> dict[TopicPartition, int]:
    led = await cluster.leaders(partitions) if partitions else {}
    ends = await offsets_by_leaders(cluster, led, LATEST)
    stable = await cluster.stable_ends(list(led)) if led else {}
    reasons = [
        FailbackReason("not-judged", str(one), f"its leader on the {side} does not say where its log ends")
        for one in partitions
        if one not in ends or one not in stable
    ]
    reasons += [
        FailbackReason(f"{side}-transaction-open", str(one), f"a transaction is open from offset {stable[one]}")
        for one in partitions
        if one in ends and stable.get(one, ends[one]) < ends[one]
    ]
    if reasons:
        raise FailbackRefused(reasons)
    return ends


# --- before the point of no return -----------------------------------------------------------------------------------


class Check(_Step):
    """Checks that the flow was failed over, and that nothing has gone the other way since."""

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises FailbackRefused."""
        world, flow = self.world, str(self.world.forward.flow)
        failed_over_ms = await world.guard.failed_over_ms()
        if failed_over_ms < 0:
            why = "it was not failed over, or was failed back since; see: raymirror dr history"
            raise FailbackRefused([FailbackReason("not-failed-over", flow, why)])
        if after := await self._copied_back(failed_over_ms):
            why = (
                "its positions are younger than the failover, so records that came from the target may be on the source"
                f" already: {', '.join(after[:_NAMED])}"
            )
            raise FailbackRefused([FailbackReason("reverse-flow-ran", str(world.back.flow), why)])
        run.say(f"{flow} was failed over")
        return {"failed_over_ms": failed_over_ms}

    async def _copied_back(self, since_ms: int) -> list[str]:
        """Return the lanes of the reverse flow that have a position since the failover."""
        cluster, back = self.world.source.cluster, self.world.back
        if not await cluster.leaders([TopicPartition(back.positions_topic, 0)]):
            return []
        records = await cluster.read_stamped(back.positions_topic)
        lanes = ((back.position_keys.decode(one.key), one) for one in records if one.timestamp > since_ms)
        return sorted({str(lane) for lane, one in lanes if lane is not None and one.value is not None})


class Fenced(_Step):
    """Keeps producers from the source; they stay out when the failback has ended."""

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises FenceRefused, FenceFailed."""
        return await self.world.fence.close(run, sorted(await topics_of(self.world)))

    async def undo(self, run: StepRun) -> Facts:
        """See Step. Raises FenceFailed."""
        return await self.world.fence.open(run)


class Retention(_Step):
    """Lets the source delete nothing by time."""

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises NotStored."""
        settings, topics = self.world.source.settings, await topics_of(self.world)
        answers = await settings.configs(dict.fromkeys(topics, (CLEANUP, RETENTION))) if topics else None
        if answers is not None and answers.failed:
            raise NotStored("the retention of source topics", answers.failed)
        known = {one.topic: one for one in run.notes(LENT, LentConfig) or ()}
        wanted = endless_retention(answers.found if answers is not None else {})
        rows = known | {one.topic: one for one in wanted if one.topic not in known}
        await run.keep(LENT, list(rows.values()))  # the earlier values, before any is changed
        run.assure()
        if failed := await change(settings, rows.values()):
            raise NotStored("the retention of source topics", failed)
        return {"topics": len(rows)}

    async def undo(self, run: StepRun) -> Facts:
        """See Step. Raises NotStored."""
        return await _restored(self.world, run)


async def _restored(world: FailbackWorld, run: StepRun) -> Facts:
    lent = run.notes(LENT, LentConfig) or ()
    run.assure()
    if failed := await give_back(world.source.settings, lent):
        raise NotStored("the retention of source topics", failed)
    return {"restored": len(lent)}


class Count(_Step):
    """Finds the exact end of each copy, counts, and refuses what would do harm."""

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises FailbackRefused."""
        choice = FailbackChoice(str(run.choice(CHOICE)))
        counted = await count(self.world, choice, exports=bool(run.choice(EXPORT)))
        if counted.reasons:
            raise FailbackRefused(counted.reasons)
        rows = counted.rows
        await run.keep(LANES, list(rows))
        torn = sum(one.diverged.torn for one in counted.found if one.diverged is not None)
        return {
            "partitions": len(rows),
            "left": len(counted.left),
            "diverged": sum(row.diverged for row in rows),
            "new": sum(row.new for row in rows),
            "torn": torn,
        }


class Export(_Step):
    """Writes to files what only the source has, and reads them back."""

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises what the export raises."""
        rows = [row for row in self.rows(run) if row.diverged]
        if not rows:
            return {"records": 0}
        topics = await topics_of(self.world)
        found = await survey(self.world, topics, [_known(row) for row in rows])
        where, records = await self.world.export(found, str(run.choice(EXPORT)))
        return {"to": where, "records": records}


def _known(row: LaneRow) -> KnownLane:
    return KnownLane(
        lane=row.source, target=row.target, source_next=row.split, at_ms=-1, ours=True, target_next=row.target_next
    )


# --- behind it -------------------------------------------------------------------------------------------------------


class LateCopy(_Step):
    """Copies to the target what only the source has, and stores where it lies there."""

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises SourceWritten, LanesStopped, FailbackRefused."""
        rows = self.rows(run)
        ends = await self.source_ends(rows)
        for _ in range(_ROUNDS):
            wanted = [row for row in rows if row.diverged or ends[row.source] > row.source_end]
            if wanted:
                run.say(f"copying to the target what only the source has: {len(wanted)} partitions")
                await self._copy(run, wanted, ends)
            late = await self._found(rows, wanted, ends)
            after = await self.source_ends(rows)
            if after == ends:
                await run.keep(LATE, late)
                return {"partitions": len(wanted), "records": sum(size_of(one.echoes) for one in late)}
            ends = after
        raise SourceWritten({str(row.source): f"it ends at {ends[row.source]} now" for row in rows})

    async def _copy(self, run: StepRun, rows: Sequence[LaneRow], ends: Mapping[TopicPartition, int]) -> None:
        world, options = self.world, self.world.forward_options()
        source, target = world.source.cluster, world.target.cluster
        epoch = await next_epoch(target, options)
        copier = world.new_copier(options, source, target)
        wanted = {row.source: ends[row.source] for row in rows}
        await copy_until(copier, [row.forward for row in rows], wanted, epoch, assure=run.assure)
        await _see_stored(target, options, wanted)

    async def _found(
        self, rows: Sequence[LaneRow], copied: Collection[LaneRow], ends: Mapping[TopicPartition, int]
    ) -> list[LateRow]:
        maps = self.world.forward_maps()
        await maps.follow()
        late: list[LateRow] = []
        for row in rows:
            end = ends[row.source]
            echoes: Echoes = ()
            if row in copied:
                echoes = echoes_of(await maps.runs(row.source, row.split, end), row.split, end)
            late.append(LateRow(topic=row.topic, partition=row.partition, source_end=end, echoes=echoes))
        return late


async def _see_stored(cluster: Cluster, options: FlowOptions, ends: Mapping[TopicPartition, int]) -> None:
    """Raise NotStored unless the position of each lane is at its end."""
    found = await positions_of(cluster, options)
    missing = {
        str(lane): f"its position in {options.positions_topic} is not at {end} yet"
        for lane, end in ends.items()
        if lane not in found or found[lane].source_next < end
    }
    if missing:
        raise NotStored("positions", missing)


class Turn(_Step):
    """Stores where the reverse flow starts; nothing but it writes to the source from here on."""

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises SourceWritten, NotStored."""
        rows, late = self.rows(run), self.late(run)
        ends = await self.source_ends(rows)
        grown = {
            str(row.source): f"it ended at {late[row.source].source_end}, and ends at {ends[row.source]} now"
            for row in rows
            if ends[row.source] != late[row.source].source_end
        }
        if grown:
            run.say(f"the source has grown: {'; '.join(grown.values())}")
            await LateCopy(self.world).do(run)  # it is the source's own: the reverse flow has copied nothing
        await self.world.guard.bar()
        run.assure()
        positions = {row.target: row.target_next - 1 if row.target_next else None for row in rows}
        if failed := await self.world.alter_back(positions):
            raise NotStored(f"positions of {self.world.back.flow}", failed)
        return {"partitions": len(rows)}


class NewCopy(_Step):
    """Copies to the source what only the target has, without the late copies."""

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises LanesStopped, FailbackRefused."""
        world, rows, late = self.world, self.rows(run), self.late(run)
        if not rows:
            return {"partitions": 0}
        echoes: dict[TopicPartition, Echoes] = {row.target: late[row.source].echoes for row in rows}
        options, source, target = world.back_options(echoes), world.source.cluster, world.target.cluster
        ends = await self._ends(run, echoes)
        await self._see_unwritten(rows, late)
        copier = world.new_copier(options, target, source)
        epoch = await next_epoch(source, options)
        run.say(f"copying to the source what only the target has: {len(rows)} partitions")
        await copy_until(copier, [row.back for row in rows], ends, epoch, assure=run.assure)
        await _see_stored(source, options, ends)
        await self._see_joined(rows, late)
        return {"partitions": len(rows)}

    async def _ends(self, run: StepRun, echoes: Mapping[TopicPartition, Echoes]) -> dict[TopicPartition, int]:
        """Return up to where the target is copied: what is decided there, behind all late copies."""
        cluster, give_up_at_s = self.world.target.cluster, now_s() + _OPEN_S
        while True:
            led = await cluster.leaders(list(echoes))
            ends = await by_leaders(cluster.stable_ends, led)
            short = [one for one, late in echoes.items() if ends.get(one, -1) < (late[-1][1] if late else 0)]
            if not short:
                return dict(ends)
            if now_s() >= give_up_at_s:
                why = "a transaction is open on the target in front of late copies; end or abort it there"
                raise FailbackRefused([FailbackReason("target-transaction-open", str(one), why) for one in short])
            run.assure()
            run.say(f"waiting for transactions on the target: {', '.join(map(str, short[:_NAMED]))}")
            await pause(_LOOK_S)

    async def _see_unwritten(self, rows: Sequence[LaneRow], late: Mapping[TopicPartition, LateRow]) -> None:
        """Raise SourceWritten if a partition has grown that the reverse flow has not begun: markers do not count."""
        source = self.world.source.cluster
        begun = await positions_of(source, self.world.back)
        ends = await self.source_ends(rows)
        grown: dict[str, str] = {}
        for row in rows:
            first, end = late[row.source].source_end, ends[row.source]
            if row.target not in begun and first < end and await _records(source, row.source, first, end):
                grown[str(row.source)] = f"records from offset {first} on are on the source alone"
        if grown:
            raise SourceWritten(grown)

    async def _see_joined(self, rows: Sequence[LaneRow], late: Mapping[TopicPartition, LateRow]) -> None:
        """Raise SourceWritten if records lie between what the source had and the first new record."""
        source, maps = self.world.source.cluster, self.world.back_maps()
        await maps.follow()
        written: dict[str, str] = {}
        for row in rows:
            first = late[row.source].source_end
            joined = maps.translate(row.target, row.target_next)
            if joined.offset > first and await _records(source, row.source, first, joined.offset):
                written[str(row.source)] = f"records between {first} and {joined.offset} are on the source alone"
        if written:
            raise SourceWritten(written)


async def _records(cluster: Cluster, partition: TopicPartition, first: int, end: int) -> int:
    wanted = ContentRange(first=first, end=end, since=first, most_bytes=_MOST_BYTES)
    return (await cluster.read_content(partition, wanted)).records


class MoveGroups(_Step):
    """Commits the place of each group on the source."""

    async def do(self, run: StepRun) -> Facts:
        """See Step."""
        world, rows, late = self.world, self.rows(run), self.late(run)
        forward, back = world.forward_maps(), world.back_maps()
        moves = GroupMoves(world.groups, world.source.groups, world.target.groups, forward, back)
        run.assure()
        moved = await moves.move([kept_lane(row, late[row.source]) for row in rows])
        await run.keep(GROUPS, list(moved.moved))
        groups = {one.group for one in moved.moved}
        unequal = {one.group for one in moved.moved if not one.is_equal} | moved.failed.keys()
        return {"groups": len(groups | unequal), "unequal": len(unequal)}


class Close(_Step):
    """Restores the retention, and lets the reverse flow run.

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
        await _restored(world, run)
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


class Patiently:
    """Runs a step again while a broker does not answer or a leader moves: a step may run as often as it takes."""

    def __init__(self, step: _Step) -> None:
        self._step = step

    async def do(self, run: StepRun) -> Facts:
        """See Step."""
        return await self._patiently(run, self._step.do)

    async def undo(self, run: StepRun) -> Facts:
        """See Step."""
        return await self._patiently(run, self._step.undo)

    @staticmethod
    async def _patiently(run: StepRun, work: Callable[[StepRun], Awaitable[Facts]]) -> Facts:
        give_up_at_s, attempt = now_s() + _PATIENCE_S, 0
        while True:
            try:
                return await work(run)
            except (ConnectionLost, BrokerUnreachable) as lost:
                if now_s() >= give_up_at_s:
                    raise
                run.say(f"again, because {lost}")
            attempt += 1
            run.assure()
            await pause(backoff_s(attempt))


def failback_steps(world: FailbackWorld) -> dict[str, Patiently]:
    """Return what does each step, by its name in the table."""
    return {name: Patiently(step) for name, step in _steps(world).items()}


def _steps(world: FailbackWorld) -> dict[str, _Step]:
    return {
        "check": Check(world),
        "fence": Fenced(world),
        "retention": Retention(world),
        "count": Count(world),
        "export": Export(world),
        "late-copy": LateCopy(world),
        "turn": Turn(world),
        "new-copy": NewCopy(world),
        "groups": MoveGroups(world),
        "close": Close(world),
    }
