"""Copies what each cluster has alone to the other one: the steps of a failback behind its point of no return.

    source   ==== P ====|== D ==|== N ==|          N: copied by the reverse flow, from `target_next` on
    target   ==== P ====|== N ..D.. N ..|          D: copied late by the flow itself, among what is still being written

Each step may run again after a kill at any point. It relies on three facts. Lanes resume exactly, by their positions
and tails. Until "turn" is done, all that lies behind the split on the source is its own, so it is D. And where the late
copies lie is stored before the reverse flow copies anything, so it leaves out exactly these.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from engine.base.clock import now_s, pause, wall_ms
from engine.core.events.events import SourceGap
from engine.core.lane.echoes import Echoes
from engine.core.offset_map.offset_map import How
from engine.flow.failback.copying import LanesStopped, copy_until, next_epoch, positions_of
from engine.flow.failback.diverged_rows import ROUNDS, exported_again, grown, keep_late, keep_rows
from engine.flow.failback.errors import FailbackReason, FailbackRefused, NotStored, SourceWritten
from engine.flow.failback.group_moves import answered
from engine.flow.failback.keyed_copies import TOMBSTONES, KeyedCopies, see_tombstones
from engine.flow.failback.late_copies import echoes_of, size_of
from engine.flow.failback.rows import LaneRow, LateRow
from engine.flow.failback.step import FailbackStep
from engine.flow.failback.world import FailbackWorld
from engine.flow.lane.bisection import by_leaders
from engine.flow.operations.driver import Facts, StepRun
from engine.flow.operations.stints import CLOSED_NOTES, ClosedRow, closed_row
from engine.flow.ports.options import FlowOptions
from engine.flow.ports.ports import EARLIEST, Cluster
from engine.flow.surveys.log_sizes import first_record, records_between, records_in
from policies.dr.advice import DR_RELEASE
from policies.model import TopicPartition

_NAMED = 5
_COPIED_WITHIN_MS = 12 * 3_600_000
"""New records are copied within that time; where the target keeps tombstones for less, deletions are compared first."""
_OPEN_S, _LOOK_S = 300.0, 1.0
"""Seconds to wait for transactions on the target that are open across late copies, and between two looks."""


class LateCopy(FailbackStep):
    """Copies to the target what only the source has, and stores where it lies there."""

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises SourceWritten, LanesStopped, FailbackRefused."""
        rows = self.old_rows(run)
        ends, more = await self.source_ends(rows), dict[str, str]()
        for _ in range(ROUNDS):
            rows = await exported_again(self.world, run, rows, ends)
            wanted = [row for row in rows if row.diverged and not row.is_keyed]
            keyed = [row for row in rows if row.is_keyed]
            see_tombstones(keyed)
            if wanted:
                run.say(f"copying to the target what only the source has: {len(wanted)} partitions")
                await self._copy(run, wanted, ends)
            if keyed:
                run.say(f"copying to the target by keys what only the source has: {len(keyed)} partitions")
            by_keys = {row.source: await KeyedCopies(self.world, run).late(row, ends[row.source]) for row in keyed}
            late = await self._found(rows, wanted, ends, by_keys)
            after = await self.source_ends(rows)
            if after == ends:
                await keep_late(run, late)
                return {"partitions": len(wanted) + len(keyed), "records": sum(size_of(one.echoes) for one in late)}
            ends, more = after, grown(ends, after)
        raise SourceWritten(more)

    async def _copy(self, run: StepRun, rows: Sequence[LaneRow], ends: Mapping[TopicPartition, int]) -> None:
        world = self.world
        source, target = world.source.cluster, world.target.cluster
        starts = await source.offsets([row.source for row in rows], EARLIEST)
        options = world.forward_options({row.topic for row in rows if starts[row.source] > row.split})
        epoch = await next_epoch(target, options)
        copier = world.new_copier(options, source, target)
        wanted = {row.source: ends[row.source] for row in rows}
        await copy_until(copier, [row.forward for row in rows], wanted, epoch, assure=run.assure)
        await _see_stored(target, options, wanted)

    async def _found(
        self,
        rows: Sequence[LaneRow],
        copied: Collection[LaneRow],
        ends: Mapping[TopicPartition, int],
        by_keys: Mapping[TopicPartition, Echoes],
    ) -> list[LateRow]:
        maps = self.world.forward_maps()
        await maps.follow()
        late: list[LateRow] = []
        for row in rows:
            end = ends[row.source]
            echoes = by_keys.get(row.source, ())
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


class Turn(FailbackStep):
    """Stores where the reverse flow starts; nothing but it writes to the source from here on."""

    def __init__(self, world: FailbackWorld, again: FailbackStep) -> None:
        """`again`: the step that takes up what the source has got since it was done."""
        super().__init__(world)
        self._again = again

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises SourceWritten, NotStored, and what `again` raises."""
        if more := await self._grown(run):
            run.say(f"the source has grown: {'; '.join(f'{lane}: {what}' for lane, what in more.items())}")
            await self._again.do(run)  # it is the source's own: the reverse flow has copied nothing
        await see_empty(self.world.source.cluster, [row.source for row in self.rows(run) if row.made])
        await self._see_tombstones(run)
        await self.world.guard.bar()
        await self._keep_closed(run)
        run.assure()
        positions = {
            row.target: row.target_next - 1 if row.target_next and not row.made else None for row in self.rows(run)
        }
        if failed := await self.world.alter_back(positions):
            raise NotStored(f"positions of {self.world.back.flow}", failed)
        return {"partitions": len(positions)}

    async def _keep_closed(self, run: StepRun) -> None:
        """Store the maps of the reverse flow's last stint, by which groups are placed: this step sets its positions."""
        if run.notes(CLOSED_NOTES, ClosedRow) is None:
            found = await positions_of(self.world.source.cluster, self.world.back)
            await run.keep(CLOSED_NOTES, [closed_row(lane, found[lane]) for lane in sorted(found)])

    async def _see_tombstones(self, run: StepRun) -> None:
        """Refuse what the target may have deleted since it was counted, if no comparison of keys can show that.

        Here is the last moment: the source can still be given back.
        """
        now_ms = wall_ms()
        doubted = [
            row
            for row in self.rows(run)
            if not row.made and row.may_lack_tombstones(now_ms) and (row.is_keyed or not row.lacks_by_deletion)
        ]
        led = await self.world.target.cluster.leaders([row.target for row in doubted]) if doubted else {}
        ends = await by_leaders(self.world.target.cluster.stable_ends, led)
        why = (
            "the target may have dropped tombstones of new records since they were counted, so the source would keep"
            f" deleted keys; it can be given back to its applications: {DR_RELEASE.given()}"
        )
        if lost := [row for row in doubted if ends.get(row.target, row.target_next + 1) > row.target_next]:
            raise FailbackRefused([FailbackReason(TOMBSTONES, str(row.source), why) for row in lost])

    async def _grown(self, run: StepRun) -> dict[str, str]:
        rows, late = self.old_rows(run), self.late(run)
        return grown({row.source: late[row.source].source_end for row in rows}, await self.source_ends(rows))


async def see_empty(cluster: Cluster, partitions: Sequence[TopicPartition]) -> None:
    """Raise SourceWritten if partitions of topics that were made anew have records before any is copied to them."""
    written = [one for one in partitions if await records_in(cluster, one)]
    if written:
        why = "its topic was made anew, and has records already: delete them, or the topic's records, by hand"
        raise SourceWritten({str(one): why for one in written})


class NewCopy(FailbackStep):
    """Copies to the source what only the target has, without the late copies."""

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises LanesStopped, FailbackRefused."""
        rows, late = self.rows(run), self.late(run)
        if not rows:
            return {"partitions": 0}
        echoes: dict[TopicPartition, Echoes] = {row.target: late[row.source].echoes for row in rows}
        left_out = {row.target: echoes[row.target] for row in rows if not row.made}
        await self._hold_tombstones(run, rows)
        ends = await self._ends(run, echoes)
        await self._bury(run, [row for row in rows if not row.made and _must_bury(row, ends[row.target])])
        rows, late = self.rows(run), self.late(run)
        await self._see_unwritten(rows, late)
        run.say(f"copying to the source what only the target has: {len(rows)} partitions")
        rows = await self._copy(run, rows, left_out, ends)
        await self._see_joined(rows, late)
        now_ms = wall_ms()
        doubted = [
            str(row.target)
            for row in rows
            if not row.made and row.may_lack_tombstones(now_ms) and ends[row.target] > row.target_next
        ]
        if doubted:
            run.say(f"the target may have dropped tombstones before they were copied: {', '.join(doubted[:_NAMED])}")
        return {
            "partitions": len(rows),
            "tombstones_in_doubt": len(doubted),
            "expired": sum(row.expired for row in rows),
        }

    async def _copy(
        self,
        run: StepRun,
        rows: tuple[LaneRow, ...],
        left_out: Mapping[TopicPartition, Echoes],
        ends: Mapping[TopicPartition, int],
    ) -> tuple[LaneRow, ...]:
        """Copy up to these ends, and return the rows with what retention has deleted before it was copied.

        Raises LanesStopped, NotStored.
        """
        source, target = self.world.source.cluster, self.world.target.cluster
        while True:
            options = self.world.back_options(left_out, {row.target: row.expired_to for row in rows})
            copier = self.world.new_copier(options, target, source)
            epoch = await next_epoch(source, options)
            try:
                await copy_until(copier, [row.back for row in rows], ends, epoch, assure=run.assure)
            except LanesStopped as stopped:
                starts = await target.offsets([gap.lane for gap in stopped.gaps], EARLIEST)
                if not stopped.lacks_records or any(gap.last >= starts[gap.lane] for gap in stopped.gaps):
                    raise  # something else than retention
                rows = await _keep_expired(run, rows, stopped.gaps, left_out)
            else:
                await _see_stored(source, options, ends)
                return rows

    async def _hold_tombstones(self, run: StepRun, rows: Sequence[LaneRow]) -> None:
        """Let the target keep tombstones that its cleaner has not seen yet; the end of the failback restores it."""
        topics = sorted({row.copy_topic for row in rows if row.tombstones_until_ms >= 0 and not row.made})
        run.assure()
        if topics and (failed := await self.world.hold_tombstones(topics)):
            named = "; ".join(f"{topic}: {why}" for topic, why in list(failed.items())[:_NAMED])
            run.say(f"the target does not keep tombstones for longer: {named}")

    async def _bury(self, run: StepRun, rows: Sequence[LaneRow]) -> None:
        """Delete on the source what the target has deleted, where nothing new is copied yet."""
        if not rows:
            return
        begun = await positions_of(self.world.source.cluster, self.world.back)
        late, copies = self.late(run), KeyedCopies(self.world, run)
        for row in rows:
            if row.target in begun:
                continue
            if not copies.has_buried(row):
                await self._see_unwritten([row], late)
            are_gone = 0 <= row.tombstones_until_ms <= wall_ms()
            buried = msgspec.structs.replace(
                row, buries=True, lacking=row.lacking or (are_gone and row.lacks_by_deletion)
            )
            await keep_rows(run, [buried])
            if (end := await copies.bury(buried)) >= 0:
                await keep_late(run, [msgspec.structs.replace(late[row.source], source_end=end)])

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
        written: dict[str, str] = {}
        for row in rows:
            first, end = _joint(row, late), ends[row.source]
            if row.target not in begun and first < end and await records_between(source, row.source, first, end):
                written[str(row.source)] = f"records from offset {first} on are on the source alone"
        if written:
            raise SourceWritten(written)

    async def _see_joined(self, rows: Sequence[LaneRow], late: Mapping[TopicPartition, LateRow]) -> None:
        """Raise SourceWritten if records lie between what the source had and the first new record."""
        source, maps = self.world.source.cluster, self.world.back_maps()
        await maps.follow()
        written: dict[str, str] = {}
        for row in rows:
            if row.made:
                at = await first_record(source, row.source)
                if at is not None and (await answered(maps, row.target, at, is_back=True)).how is not How.RUN:
                    written[str(row.source)] = f"the record at {at} was not copied from the target"
                continue
            first = late[row.source].source_end
            joined = maps.translate(row.target, row.target_next)
            if joined.offset > first and await records_between(source, row.source, first, joined.offset):
                written[str(row.source)] = f"records between {first} and {joined.offset} are on the source alone"
        if written:
            raise SourceWritten(written)


async def _keep_expired(
    run: StepRun, rows: Sequence[LaneRow], gaps: Sequence[SourceGap], left_out: Mapping[TopicPartition, Echoes]
) -> tuple[LaneRow, ...]:
    """Count and store what the target's retention has deleted before it was copied; return all rows.

    Nobody has these records any more. Without them a failback could end neither way here. They are stored before a
    lane continues behind them, so that each is counted once.
    """
    found = {gap.lane: gap for gap in gaps}
    seen = tuple(
        _without(row, found[row.target], left_out.get(row.target, ())) if row.target in found else row for row in rows
    )
    await keep_rows(run, seen)
    run.say(f"the target's retention has deleted {sum(row.expired for row in seen)} offsets before they were copied")
    return seen


def _without(row: LaneRow, gap: SourceGap, late: Echoes) -> LaneRow:
    """Return a row with what is missing now, each offset once, and no late copies: the source has those."""
    first, end = max(gap.first, row.expired_to), gap.last + 1
    echoed = sum(max(0, min(end, to) - max(first, start)) for start, to in late)
    return msgspec.structs.replace(row, expired=row.expired + end - first - echoed, expired_to=end)


def _must_bury(row: LaneRow, target_end: int) -> bool:
    """Whether the target may drop tombstones of N before N is copied; without N there are none."""
    is_near = row.may_lack_tombstones(wall_ms() + _COPIED_WITHIN_MS) and target_end > row.target_next
    return row.buries or (is_near and not row.is_keyed)


def _joint(row: LaneRow, late: Mapping[TopicPartition, LateRow]) -> int:
    """Return the source offset that the first new record follows."""
    return 0 if row.made else late[row.source].source_end
