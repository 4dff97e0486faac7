"""The steps of a switchover that swap the roles: where the reverse flow starts, its start, and the watch afterwards.

copies keep their names      the reverse flow starts in the copy, behind what our flow wrote there: what
                             applications wrote behind that already is copied to the source
copies have a prefix         the reverse flow copies the target's own topics: from where it was, or from their ends, or
                             from where producers that have moved already began; groups get a start offset in them, so
                             no record of a producer that moves is skipped
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from engine.base.clock import now_s, pause
from engine.base.errors import BrokerUnreachable, ConnectionLost, FlowHeld, KafkaRefusal
from engine.core.offset_map.map_blocks import map_topic
from engine.core.position.position import ForeignPosition, Position
from engine.flow.operations.driver import Facts, StepRun
from engine.flow.operations.fencing import take_back
from engine.flow.operations.stints import (
    CLOSED_NOTES,
    START_NOTES,
    TOPICS_NOTES,
    ClosedRow,
    StoredStart,
    closed_row,
)
from engine.flow.operations.store import OperationStore
from engine.flow.ownership.stored_positions import stored_positions
from engine.flow.surveys.record_epochs import epochs_before
from engine.flow.topic_logs.last_known import LastKnown
from engine.kafka.admin.internal_topics import MAP_CONFIGS, POSITIONS_CONFIGS, ensure_internal_topic
from engine.services.dr.other_fences import COMMAND_NOTES, CalledCommand, CommandFence
from engine.services.dr.switchover.flow_control import FlowControl
from engine.services.dr.switchover.group_starts import mirrored_groups, producer_starts, start_groups
from engine.services.dr.switchover.steps import DRAINED_NOTES, GROUP_NOTES, GroupRow, gone_on
from engine.services.dr.switchover.world import DrainedEnd, NotDrained, SwitchoverWorld
from engine.services.holding import held
from engine.services.maps import last_known_of, map_topics_of
from engine.services.position_alteration import PositionAlteration
from engine.services.state_service import StateService
from engine.state.state import DESIRED, MovedTopic, StateHolder, desired_of, without_moved
from policies.dr.fence import FENCE_NOTES, FENCE_STEP, FenceRow
from policies.dr.operations import has_standing_fence, undone
from policies.model import TopicPartition
from policies.words import counted

HEARD_S = 30.0
"""Seconds within which brokers know a topic that was just created, and lead its partitions."""
_LOOK_S = 0.5
BEFORE_NOTES, GROWN_NOTES = "positions-before", "behind-fence"


class PositionsStep:
    """Stores where the reverse flow starts. Nothing may copy that flow meanwhile, so this step owns it."""

    def __init__(self, world: SwitchoverWorld, holder: StateHolder) -> None:
        self._world, self._holder = world, holder

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises NotDrained, PositionsNotAltered, FlowHeld if the reverse flow runs and must not."""
        facts: Facts = {}
        moved: Mapping[str, MovedTopic] = {}
        if not self._world.keeps_names:
            moved = (await self._world.moved()).topics
            facts = await start_groups(run, self._world, await mirrored_groups(self._world), moved)
        try:
            async with self._owned():
                return {**facts, **await self._store(run, moved)}
        except FlowHeld:
            if self._world.keeps_names:
                raise
        return {**facts, "reverse_runs": True}  # it copies the target's own topics already, from where it is

    @asynccontextmanager
    async def _owned(self) -> AsyncIterator[StateService]:
        reverse = self._world.reverse
        async with held(reverse.config, reverse.flow, self._holder, lambda _owner: False) as service:
            yield service

    async def _store(self, run: StepRun, moved: Mapping[str, MovedTopic]) -> Facts:
        world, reverse = self._world, self._world.reverse.flow
        for topic, configs in (
            (reverse.positions_topic, POSITIONS_CONFIGS),
            (map_topic(reverse.name.source), MAP_CONFIGS),
        ):
            replicas = reverse.positions_replication_factor
            await ensure_internal_topic(
                world.source_client, topic, replicas, configs, partitions=reverse.positions_partitions
            )
        known = await self._known()
        before = {one.lane: one.source_next for one in known.lanes}
        starts = await self._starts(before, moved)
        if run.notes(BEFORE_NOTES, StoredStart) is None:
            await run.keep(BEFORE_NOTES, [StoredStart(*lane, before.get(lane, -1)) for lane in sorted(starts)])
        if self._world.keeps_names:
            await self._keep_closed(run)
        await run.keep(START_NOTES, [StoredStart(*lane, start) for lane, start in sorted(starts.items())])
        run.assure()
        # A copy keeps no position of an earlier stint: behind it the source has what applications wrote there since.
        keeps = {} if self._world.keeps_names else before
        wanted = {lane: start for lane, start in starts.items() if keeps.get(lane, -1) != start}
        await self._alter(wanted, self._drained(run))
        return {"reverse_partitions": len(starts)}

    async def _keep_closed(self, run: StepRun) -> None:
        """Store where our maps are, and those of the last stint of the reverse flow, which this step takes away.

        Groups that have read little since are placed by them, now and after later switchovers. After a kill or an abort
        the positions have none any more: what was stored stays.
        """
        reverse = self._world.reverse.flow
        noted = run.notes(CLOSED_NOTES, ClosedRow)
        rows = dict((await self._world.stints()).last) if noted is None else {row.lane: row for row in noted}
        stored = await stored_positions(self._world.source, reverse.positions_topic, reverse.position_keys)
        rows |= {lane: closed_row(lane, one) for lane, one in stored.lanes.items() if isinstance(one, Position)}
        await run.keep(CLOSED_NOTES, [rows[lane] for lane in sorted(rows)])
        await run.keep(TOPICS_NOTES, [map_topics_of(self._world.flow)])

    async def _known(self) -> LastKnown:
        """Read the positions of the reverse flow; brokers learn of a topic that was just created a little later."""
        give_up_at_s = now_s() + HEARD_S
        while True:
            known = await last_known_of(self._world.reverse.flow, self._world.source)
            if not known.unread:
                return known
            if now_s() >= give_up_at_s:
                raise NotDrained(known.unread)
            await pause(_LOOK_S)

    async def _starts(
        self, before: Mapping[TopicPartition, int], moved: Mapping[str, MovedTopic]
    ) -> dict[TopicPartition, int]:
        """Return where partitions of the reverse flow start, by their topics on the target.

        If copies keep their names, what our flow never copied is no copy: it lies on the target alone, and the reverse
        flow goes on where it was there, or starts as with any new partition.
        """
        world, selection = self._world, self._world.reverse.flow.selection
        beats = self._world.reverse.flow.naming.is_heartbeats_topic
        topics = {
            name: state.partitions
            for name, state in (await world.target_settings.topics(None)).items()
            if selection.wants(name) and not beats(name)
        }
        lanes = [lane.source for lane in selection.lanes(topics)]
        if world.keeps_names:
            copies = await self._copies()
            lanes = [lane for lane in lanes if lane in copies]
        if not world.keeps_names:
            starts = await producer_starts(world, lanes, moved)
            return {lane: before[lane] if before.get(lane, -1) >= 0 else start for lane, start in starts.items()}
        ends = await world.copy_ends(lanes)
        others = await world.other_writers()
        if others.unknown:
            raise NotDrained(dict(others.unknown))
        first = {TopicPartition(one.target_topic, one.partition): one.first for one in others.found}
        return {lane: first.get(lane, end) for lane, end in ends.items()}

    async def _copies(self) -> set[TopicPartition]:
        """Return the partitions of the target that our flow has a position for."""
        known = await last_known_of(self._world.flow, self._world.target)
        if known.unread:
            raise NotDrained(known.unread)
        return {one.target for one in known.lanes}

    def _drained(self, run: StepRun) -> dict[TopicPartition, int]:
        """Return where the source's logs were drained, by partition of the reverse flow, if it writes to these logs.

        What the source gets behind that is in no copy, and the reverse flow would append after it. So its lanes look.
        """
        copy_of = self._world.flow.selection.target_topic
        rows = run.notes(DRAINED_NOTES, DrainedEnd) or () if self._world.keeps_names else ()
        return {TopicPartition(copy_of(row.topic), row.partition): row.end for row in rows}

    async def _alter(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int] | None = None
    ) -> None:
        reverse = self._world.reverse
        epochs = await epochs_before(self._world.target, starts)  # else a failback could not tell this log from another
        wanted = {lane: start - 1 if start > 0 else None for lane, start in starts.items()}
        async with PositionAlteration(reverse.config, reverse.flow) as alteration:
            await alteration.alter(wanted, epochs, ends)

    async def undo(self, run: StepRun) -> Facts:
        """See Step. Raises PositionsNotAltered, FlowHeld if the reverse flow runs and must not."""
        before = {row.lane: row.next for row in run.notes(BEFORE_NOTES, StoredStart) or ()}
        if not before:
            return {}
        try:
            async with self._owned():
                before = await self._untouched(before)
                run.assure()
                await self._alter(before)
        except FlowHeld:
            if self._world.keeps_names:
                raise
            return {"positions_put_back": 0, "reverse_runs": True}  # what it copies is the target's own, and right
        return {"positions_put_back": len(before)}

    async def _untouched(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the lanes whose position is still the one that this step has set.

        All others have positions of a copier, which know what it has appended: they stay. So do those that the step has
        left where they were.
        """
        reverse = self._world.reverse.flow
        stored = await stored_positions(self._world.source, reverse.positions_topic, reverse.position_keys)
        return {
            lane: at
            for lane, at in before.items()
            if isinstance(one := stored.lanes.get(lane), ForeignPosition)
            and one.altered
            and (at < 0 or self._world.keeps_names)
        }


class ReverseStep:
    """Swaps the roles: lifts an earlier fence of the target, stops the flow for good, starts the reverse flow."""

    def __init__(
        self, world: SwitchoverWorld, store: OperationStore, control: FlowControl, holder: StateHolder
    ) -> None:
        self._world, self._store, self._control, self._holder = world, store, control, holder
        self._command = world.config.fence_command

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises FenceFailed, MirrorError if the mirror does not do it."""
        lifted = await self._lift(run)
        run.assure()
        if self._world.keeps_names:  # both directions at once would be a loop
            await self._control.stop()
            how = await self._start(run)
        else:  # a mirror ends with its last flow, and then it could not start this one
            how = await self._start(run)
            await self._control.stop()
        return {"lifted_bindings": lifted, "reverse_runs": not how, "reverse_start": how}

    async def _start(self, run: StepRun) -> str:
        """Start the reverse flow; return what the operator must do for that, empty if it runs."""
        await self._allow()
        await self._forget_moves(run)
        run.assure()
        how = await self._control.start_reverse()
        run.assure()
        return how

    async def _lift(self, run: StepRun) -> int:
        """Take away the fences that earlier operations of the reverse flow have left on the target."""
        lifted = 0
        for one in self._store.operations:
            if one.has_ended and one.source == self._world.flow.name.target and has_standing_fence(one):
                rows = self._store.notes(one, FENCE_NOTES, FenceRow) or ()
                run.assure()
                if self._store.notes(one, COMMAND_NOTES, CalledCommand):
                    await CommandFence(self._command, one.flow).lift(one.id)
                if rows:
                    lifted += await take_back(run, self._world.target_settings, [row.binding for row in rows])
                await self._store.save(undone(one, FENCE_STEP, one.ended_ms, {}))
        return lifted

    async def _allow(self) -> None:
        """Let the reverse flow be started, if an earlier switchover or failover stopped it for good.

        It copies all topics again, also those whose producers had moved: they are back now.
        """
        reverse = self._world.reverse
        try:
            async with held(reverse.config, reverse.flow, self._holder, lambda _owner: False) as service:
                wanted = desired_of(service.load())
                allowed = without_moved(wanted, wanted.moved_topics)
                if wanted.failed_over:
                    allowed = allowed.in_state("running")
                if allowed != wanted:
                    await service.put({DESIRED: allowed})
        except FlowHeld:
            return  # a mirror has it: `start_reverse` asks that mirror

    async def _forget_moves(self, run: StepRun) -> None:
        """Forget which groups and producers had moved to the source of this switchover: they leave it now."""
        run.assure()
        await self._world.reverse_moves.forget()

    async def undo(self, run: StepRun) -> Facts:
        """See Step: it is behind the point of no return."""
        del run
        return {}


class WatchStep:
    """Looks once more whether the source was written to behind the fence, and stores what it found.

    `groups`: also whether groups have consumed there since they were committed on the target.
    """

    def __init__(self, world: SwitchoverWorld, *, groups: bool = False) -> None:
        self._world, self._groups = world, groups

    async def do(self, run: StepRun) -> Facts:
        """See Step. Where the reverse flow writes to the same partitions, it reports other writers itself.

        It looks from the drained ends on, because they are stored with the positions that it starts at.
        """
        reverse = run.operation.step("reverse")
        watches = self._world.keeps_names and reverse is not None and bool(reverse.facts.get("reverse_runs"))
        grown = await self._world.grown(run.notes(DRAINED_NOTES, DrainedEnd) or ())
        if watches:
            copy_of = self._world.flow.selection.target_topic
            started = {row.lane for row in run.notes(START_NOTES, StoredStart) or ()}
            grown = tuple(one for one in grown if TopicPartition(copy_of(one.topic), one.partition) not in started)
        await run.keep(GROWN_NOTES, grown)
        if grown:
            run.say(f"written to the source behind the fence: {counted(len(grown), 'partition')}")
        told: Facts = {"partitions_behind_the_fence": len(grown)}
        if self._groups:
            told = {**told, **await self._watch_groups(run)}
        return {**told, "watched_by": "the reverse flow (raymirror.foreign.writer)"} if watches else told

    async def _watch_groups(self, run: StepRun) -> Facts:
        known = {row.group: row for row in run.notes(GROUP_NOTES, GroupRow) or ()}
        try:
            standing = await self._world.hold(0.0, commit=False, undrained={})
        except (
            BrokerUnreachable,
            ConnectionLost,
            KafkaRefusal,
        ) as lost:  # applications may start: nothing waits for this
            return {"groups_gone_on": -1, "groups_not_watched": str(lost)}
        late = {group: GroupRow(group, why) for group, why in gone_on(standing).items() if group not in known}
        if late:
            await run.keep(GROUP_NOTES, [row for _, row in sorted((known | late).items())])
            run.say(f"consumed on the source after the step groups: {counted(len(late), 'group')}")
        return {"groups_gone_on": len(late)}

    async def undo(self, run: StepRun) -> Facts:
        """See Step."""
        del run
        return {}
