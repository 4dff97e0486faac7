"""Serves a failover: reads the source's end offsets, and moves consumer groups to their translated offsets."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager

import msgspec

from engine.base.clock import now_s, pause
from engine.base.errors import (
    BrokerUnreachable,
    ClusterAway,
    ClusterRefuses,
    ConnectionLost,
    KafkaRefusal,
    MirrorError,
    NewerFormat,
    StateUnreadable,
)
from engine.base.opened import Opened
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.position.position import Position
from engine.core.reports.drain import Ends
from engine.flow.failback.lent_configs import LentConfigs, keep_tombstones, take_back
from engine.flow.groups.failback import Failback
from engine.flow.groups.group_commits import CommitRules, GroupCommits
from engine.flow.groups.status import GroupStatus, GroupStatusReader, stand_by_checkpoints, waiting_text
from engine.flow.groups.translations import Translations
from engine.flow.operations.reading import OperationCopy, read_copy
from engine.flow.operations.store import OperationStore
from engine.flow.ownership.other_writers import OtherWriters, other_writers
from engine.flow.ownership.stored_positions import stored_positions
from engine.flow.refused.quarantine_reader import Replayers
from engine.flow.topic_logs.checkpoints import CheckpointLog
from engine.flow.topic_logs.last_known import LastKnown, stored_state
from engine.flow.topic_logs.lent_log import LentLog
from engine.kafka.admin.flow_clusters import check_clusters
from engine.kafka.admin.reach import SOURCE_WITHIN_S, open_known_source
from engine.kafka.admin.settings import KafkaSettings
from engine.kafka.data.partition_ends import BROKER_WITHIN_S, known_ends, partition_ends
from engine.kafka.groups.groups import KafkaGroups
from engine.kafka.groups.reachable_groups import ReachableGroups
from engine.services.clients import clients_of
from engine.services.dr.lifting import LiftedFences, lift_fences
from engine.services.dr.move_log import MoveLog
from engine.services.dr.operation_service import leased, operation_log
from engine.services.maps import clusters_of, group_maps_of, last_known_of, maps_of, quarantine_reader_of
from engine.services.quarantine import LeftOutRecords, LeftOutRow, RefusedSurvey, left_out_rows
from engine.state.moves import Moves
from engine.state.state import Key, StateHolder, Value
from policies.dr.operation_steps import FlowSide
from policies.dr.operations import DrOperation
from policies.groups import GroupSelection
from policies.model import LaneName, TopicPartition

CLIENT_ID = "raymirror-failover"
LOOK_S = 10.0
"""The last check of the groups has at least this long, even if less of the time is left."""
COPIES_WITHIN_S = 30.0
"""Time for the target's brokers to name the leaders of the copies: there may be thousands of topics."""
_AGAIN_S = 0.25
_SAY_S = 5.0
_ALL = "*"
_UNREAD = (ConnectionLost, BrokerUnreachable, KafkaRefusal, NewerFormat, StateUnreadable)


class TargetAway(ClusterAway):
    """No broker of the target of a flow answers; same arguments as ClusterAway."""

    def __str__(self) -> str:
        return f"{super().__str__()}; it is the target of the flow: without it nothing can be judged or stored"


class Failover(Opened):
    """Questions and commits of one failover, over connections of its own, as an async context.

    Raises BrokerUnreachable if the target does not answer, OtherCluster if it is not the cluster that positions name,
    SameCluster if it is the source too. If the source does not answer, or is another cluster, `gone` says why.
    """

    def __init__(self, config: MirrorConfig, flow: FlowConfig) -> None:
        self._flow, self._fence_command = flow, config.fence_command
        self._clients = clients_of(config, flow.name, CLIENT_ID)
        self._source, self._target = clusters_of(flow, self._clients)
        self._source_groups = ReachableGroups(self._clients[0], patience_s=BROKER_WITHIN_S)
        self._target_groups = KafkaGroups(self._clients[1])
        self._maps = maps_of(flow, self._source, self._target, syncs_within_s=BROKER_WITHIN_S)
        self._group_maps = group_maps_of(flow, self._maps, self._source, self._target)
        self._log = CheckpointLog(self._target, flow.naming.checkpoints_topic(flow.name.source), flow.request_timeout_s)
        self._moves = MoveLog(self._target, self._clients[1], flow)
        self.gone = ""
        """Why the source cannot be asked; empty if it answers."""

    async def _open(self) -> None:
        source, target = self._clients
        try:
            await target.open()
        except ClusterRefuses:
            raise
        except ClusterAway as away:
            raise TargetAway(*away.args) from None
        await check_clusters(self._flow, None, target)
        self.gone = await open_known_source(self._flow, source, target)

    async def _close(self) -> None:
        await self._log.close()
        for client in self._clients:
            await client.close()

    async def ends(self, lanes: Collection[TopicPartition]) -> Ends:
        """Ask for the current source end offsets of all that the flow copies, and of `lanes`; in bounded time."""
        if self.gone:
            return Ends(gone=self.gone)
        return await partition_ends(self._clients[0], self._flow.selection, lanes, SOURCE_WITHIN_S)

    async def ends_of(self, lanes: Collection[TopicPartition]) -> Ends:
        """Ask for the current end offsets of some source partitions; in bounded time."""
        return await known_ends(self._clients[0], lanes, BROKER_WITHIN_S)

    async def stored(self) -> LastKnown:
        """Read how far every partition was copied and the copy still exists, for a flow that no mirror copies.

        If the source answers, newer offset syncs count too. Raises ConnectionLost, BrokerUnreachable, KafkaRefusal.
        """
        found = await last_known_of(self._flow, self._target)
        lanes = found.lanes
        if not self.gone:
            await self._maps.follow()
            maps = self._maps
            lanes = tuple(one.gone_on(maps.head(one.lane), maps.head_ms(one.lane)) for one in lanes)
        copies = [lane.target for lane in lanes if lane.target_next >= 0]
        ends = await known_ends(self._clients[1], copies, COPIES_WITHIN_S) if copies else Ends()
        led = await self._target.leaders(copies) if copies else {}
        ids = {copy: leader.topic_id for copy, leader in led.items()}
        judged = tuple(lane.of_copy(ids.get(lane.target, "")).held_against(ends) for lane in lanes)
        return msgspec.structs.replace(found, lanes=judged)

    async def state(self) -> dict[Key, Value]:
        """Read the durable state of the flow. Raises what `stored_state` raises."""
        return await stored_state(self._target, self._flow.name)

    async def operations(self) -> OperationCopy:
        """Read the operations of the flow and its reverse, and who drives them, as the target has them.

        Raises ConnectionLost, BrokerUnreachable, KafkaRefusal, NewerFormat, StateUnreadable.
        """
        return await read_copy(self._target, self._flow.name)

    async def moved(self) -> Moves:
        """Read which groups and producers have moved to the target already. Raises as `operations` does."""
        return await self._moves.read()

    @asynccontextmanager
    async def operating(self, holder: StateHolder) -> AsyncIterator[DrOperation | None]:
        """Own the operations of the target while the block runs, so that no other one begins; give the open one.

        The lease on the target is enough: every operation and every failover takes it, and the source may be dead.

        Raises OperationHeld if another driver is alive, OperationTaken in the block if one takes over; and what
        `operations` raises.
        """
        name, replicas = self._flow.name, self._flow.positions_replication_factor
        log = await operation_log(self._clients[1], self._target, name, replicas, holder)
        async with leased(OperationStore(str(name), {FlowSide.TARGET: log})) as store:
            yield store.current

    async def hold(
        self,
        timeout_s: float,
        *,
        commit: bool,
        undrained: Mapping[TopicPartition, str],
        gone: str = "",
        say: Callable[[str], None] = lambda _text: None,
    ) -> GroupStatus:
        """Commit the translated offsets of groups until waiting is in vain or time is up; return their status then.

        A group is not equal in a partition that is not drained (`undrained`, with why). `gone`: why the source is
        not asked. `say` is told every few seconds for which groups it waits. Groups that have moved are left out; if
        they are not known, none is, and `failed` says why.

        Raises ConnectionLost, BrokerUnreachable, KafkaRefusal if no check of the groups succeeded.
        """
        moves, unequal = Moves(), dict[str, str]()
        try:
            moves = await self.moved()
        except _UNREAD as failure:  # a failover waits for nothing that it can do without
            unequal = {_ALL: f"which groups have moved is not known, so none was left out: {failure}"}
        selection = self._flow.groups.selection.without(moves.gone)
        standing = await self._hold(selection, timeout_s, commit=commit, undrained=undrained, gone=gone, say=say)
        if not (self.gone or gone):
            unequal |= await self._read_on(moves)
        return msgspec.structs.replace(standing, failed=standing.failed | unequal)

    async def _read_on(self, moves: Moves) -> dict[str, str]:
        """Return the moved groups that have read on the source since, as far as it answers: their places are old."""
        if not moves.gone:
            return {}
        try:
            found = (await self._source_groups.offsets(sorted(moves.gone))).found
        except _UNREAD:  # what the failover has done so far counts
            return {}
        why = f"it has moved, and read on {self._flow.name.source} since, so its place here is old; see: raymirror move"
        return {
            group: why
            for group, commits in found.items()
            if moves.groups[group].read_on({lane: offset for lane, (offset, _) in commits.items()})
        }

    async def _hold(
        self,
        selection: GroupSelection,
        timeout_s: float,
        *,
        commit: bool,
        undrained: Mapping[TopicPartition, str],
        gone: str,
        say: Callable[[str], None],
    ) -> GroupStatus:
        if gone := self.gone or gone:
            standing = await stand_by_checkpoints(
                selection, self._log, self._target, self._target_groups, commit=commit
            )
            return msgspec.structs.replace(standing, missing={f"cluster {self._flow.name.source!r}": gone})
        stands = self._stands(selection, commit=commit)
        standing = await self._looked(stands, now_s() + timeout_s, undrained, commit=commit, say=say)
        if stands.unanswered or standing.missing:
            others = await stand_by_checkpoints(
                selection,
                self._log,
                self._target,
                self._target_groups,
                commit=commit,
                of=lambda group: (
                    group in stands.unanswered or (bool(standing.missing) and group not in stands.answered)
                ),
            )
            standing = standing.completed(others)
        return standing.held_against(undrained)

    async def _looked(
        self,
        stands: GroupStatusReader,
        give_up_at_s: float,
        undrained: Collection[TopicPartition],
        *,
        commit: bool,
        say: Callable[[str], None],
    ) -> GroupStatus:
        found: GroupStatus | None = None
        say_at_s = now_s() + _SAY_S
        while True:
            late = now_s() >= give_up_at_s
            try:
                async with asyncio.timeout(max(LOOK_S, give_up_at_s - now_s())):
                    found = await stands.read()
            except TimeoutError:
                if found is None:
                    raise ConnectionLost("consumer groups: not all brokers answered in time") from None
                return found
            except (ConnectionLost, BrokerUnreachable) as lost:
                if late and found is None:
                    raise
                why = {"a cluster": str(lost)}
            else:
                found = msgspec.structs.replace(found, missing=self._source_groups.missing)
                why = found.waited_for(undrained)
            if found is not None and (late or not commit or not why):
                return found
            if now_s() >= say_at_s:
                say(waiting_text(why, give_up_at_s - now_s()))
                say_at_s = now_s() + _SAY_S
            await pause(_AGAIN_S)

    def _translations(self) -> Translations:
        """Build the translator of the groups' commits."""
        return Translations(self._flow.selection, self._group_maps, self._target)

    def _stands(self, selection: GroupSelection, *, commit: bool) -> GroupStatusReader:
        translations = self._translations()
        commits = GroupCommits(self._flow.name, self._target_groups, translations, rules=CommitRules(renews=False))
        return GroupStatusReader(
            selection,
            self._source,
            self._source_groups,
            self._target_groups,
            translations,
            commits.commit if commit else None,
        )

    async def keep_tombstones(self, topics: Collection[str], least_ms: int) -> LentConfigs:
        """Let compacted copies keep tombstones for at least `least_ms`, 0: as before; a failure is in the result."""
        if not least_ms:
            return LentConfigs()
        try:
            async with self._loans() as loans:
                return await keep_tombstones(KafkaSettings(self._clients[1]), loans, topics, least_ms)
        except _UNREAD as failure:
            return LentConfigs(failed={f"cluster {self._flow.name.target!r}": str(failure)})

    async def lift_fences(self) -> LiftedFences:
        """Lift what earlier operations keep producers from the target with; a failure is in the result."""
        alias = self._flow.name.target
        try:
            copy = await read_copy(self._target, self._flow.name)
        except MirrorError as failure:
            return LiftedFences(failed={f"operations of cluster {alias!r}": str(failure)})
        return await lift_fences(copy, alias, KafkaSettings(self._clients[1]), self._fence_command)

    async def take_back(self) -> dict[str, str]:
        """Restore what a failover has lent to topics of the target; return where that failed, and why.

        Raises ConnectionLost, BrokerUnreachable, KafkaRefusal, NewerFormat, StateUnreadable.
        """
        async with self._loans() as loans:
            return await take_back(KafkaSettings(self._clients[1]), loans)

    @asynccontextmanager
    async def _loans(self) -> AsyncIterator[LentLog]:
        log = LentLog(self._target, self._flow.name, self._flow.request_timeout_s)
        try:
            yield log
        finally:
            await log.close()

    async def left_out(self) -> tuple[LeftOutRow, ...]:
        """Count what the target refused of topics that the flow copies, and nobody has replayed or dropped.

        Raises what `RefusedSurvey.rows` raises.
        """
        flow = self._flow
        rows = await RefusedSurvey(flow, self._target, quarantine_reader_of(flow, self._target)).rows()
        return left_out_rows(row for row in rows if flow.selection.wants(row.name.topic))

    async def known_left_out(self) -> LeftOutRecords:
        """Count the same for a report: a failure to read it is in the result, and keeps nobody from a failover."""
        try:
            return LeftOutRecords(rows=await self.left_out())
        except MirrorError as failure:
            return LeftOutRecords(unknown=str(failure))

    async def way_back(self, *, backwards: bool) -> Failback:
        """Build the failback of groups to the source. Raises ConnectionLost, BrokerUnreachable, KafkaRefusal."""
        if self.gone:
            raise BrokerUnreachable(f"cluster {self._flow.name.source!r}", self.gone)
        stored = await stored_positions(self._target, self._flow.positions_topic, self._flow.position_keys)
        topic = self._flow.selection.target_topic
        lanes = {TopicPartition(topic(lane.topic), lane.partition): lane for lane in stored.lanes}
        return Failback(
            self._flow.groups.selection,
            lanes,
            group_maps_of(
                self._flow,
                maps_of(self._flow, self._source, self._target),
                self._source,
                self._target,
                backwards=True,
            ),
            KafkaGroups(self._clients[0]),
            self._target_groups,
            backwards=backwards,
        )

    async def other_writers(self) -> OtherWriters:
        """Look for records of another writer after the last copied ones. Raises as `way_back` does."""
        selection = self._flow.selection
        stored = await stored_positions(self._target, self._flow.positions_topic, self._flow.position_keys)
        positions = {
            LaneName(lane, TopicPartition(selection.target_topic(lane.topic), lane.partition)): one
            for lane, one in stored.lanes.items()
            if isinstance(one, Position) and selection.wants(lane.topic)
        }
        is_used = self._flow.faults.leaves_out
        replayers = Replayers(self._target, self._flow.name.source, is_used=is_used)
        return await other_writers(self._target, positions, replayers, stops=self._flow.stop_on_foreign_writer)
