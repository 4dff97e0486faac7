"""Connects to the clusters of a flow that was failed over, and runs its failback as an operation.

It owns the flow and its reverse while it runs, so no mirror copies either of them. The flow stays barred from a start,
and so is the reverse flow until the failback has ended (`engine/state/state.py`, `DesiredState`).
"""

import socket
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec

from engine.base.clock import wall_ms
from engine.base.errors import BrokerUnreachable
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.offset_map.map_blocks import map_topic
from engine.flow.failback.counting import Counted, FailbackWish, count, topics_of
from engine.flow.failback.errors import FailbackReason, FailbackRefused
from engine.flow.failback.first_steps import flow_reasons
from engine.flow.failback.world import FailbackGuard, FailbackPorts, FailbackWorld
from engine.flow.lane.bounded_retry import until_answered
from engine.flow.operations.fencing import Fence, FenceRefused
from engine.flow.ports.options import FlowOptions
from engine.flow.ports.ports import Cluster
from engine.flow.replication.copier import FlowCopier
from engine.flow.surveys.separation_survey import SurveyedPartition
from engine.flow.topic_logs.last_known import KnownLane
from engine.kafka.admin.admin import shortest_expiry_s
from engine.kafka.admin.internal_topics import MAP_CONFIGS, POSITIONS_CONFIGS, ensure_internal_topic
from engine.kafka.admin.settings import KafkaSettings
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.data.partition_ends import BROKER_WITHIN_S
from engine.kafka.gateway import KafkaCluster
from engine.kafka.groups.groups import KafkaGroups
from engine.services.clients import copying_clients
from engine.services.dr.export import ExportedPartition, PartitionExporter, prepare
from engine.services.dr.move_log import MoveLog
from engine.services.dr.preview import PreviewService, fed_too
from engine.services.dr.switchover.world import ReverseConfig
from engine.services.holding import held
from engine.services.maps import StoredStints, last_known_of, map_topics_of, maps_of
from engine.services.runner import options_for
from engine.services.state_service import StateService
from engine.state.state import (
    DESIRED,
    Deployment,
    DesiredState,
    StateCodec,
    StateHolder,
    desired_of,
    failed_over_at,
    state_topic,
    without_moved,
)
from engine.wire.bounded import MAX_INFLATED_BYTES
from policies.model import FlowName, TopicPartition
from policies.start import Earliest, Start

CLIENT_ID = "raymirror-failback"
HELD_MS = 30 * 86_400_000
"""How long the target keeps tombstones from when new records are copied: as after a failover."""
NO_FENCE, NOT_EXPORTED = "no-way-to-fence", "not-exported"
"""The names of the reasons that no fence can be made, and that an export is not whole."""


class FailbackService(PreviewService):
    """The clusters of one flow and of its reverse, as an async context. Raises what `Failover` raises.

    Raises BrokerUnreachable also if the source does not answer.
    """

    def __init__(self, config: MirrorConfig, flow: FlowConfig, reverse: ReverseConfig, deployment_id: str) -> None:
        super().__init__(config, flow)
        self._reverse, self._deployment_id = reverse, deployment_id
        self._forward_clients = copying_clients(config, flow.name, CLIENT_ID)
        self._back_clients = copying_clients(reverse.config, reverse.flow.name, CLIENT_ID)
        self._forward = clusters_to_copy(flow, self._forward_clients)
        self._back = clusters_to_copy(reverse.flow, self._back_clients)

    async def _open(self) -> None:
        await super()._open()
        if self.gone:
            raise BrokerUnreachable(f"cluster {self._flow.name.source!r}", self.gone)
        for client in (*self._forward_clients, *self._back_clients):
            await client.open()

    async def _close(self) -> None:
        for client in (*self._forward_clients, *self._back_clients):
            await client.close()
        await super()._close()

    async def prepare(self) -> None:
        """Create the topics that the reverse flow keeps on the source. Raises KafkaRefusal."""
        reverse, client = self._reverse.flow, self._back_clients[1]
        topics = ((reverse.positions_topic, POSITIONS_CONFIGS), (map_topic(reverse.name.source), MAP_CONFIGS))
        for topic, configs in topics:
            replicas, partitions = reverse.positions_replication_factor, reverse.positions_partitions
            await ensure_internal_topic(client, topic, replicas, configs, partitions=partitions)

    @property
    def source_client(self) -> ClusterClient:
        """The connection to the source, with the admin's login."""
        return self._clients[0]

    @property
    def moves_back(self) -> MoveLog:
        """The moves of the reverse flow, which the source has."""
        return MoveLog(self._back[1], self._back_clients[1], self._reverse.flow)

    def world(self, guard: FailbackGuard, fence: Fence) -> FailbackWorld:
        """Return what the steps work on."""
        flow, reverse = self._flow, self._reverse.flow
        return FailbackWorld(
            source=FailbackPorts(
                cluster=self._back[1],
                settings=KafkaSettings(self._clients[0]),  # with what is lent: it is to be taken back
                groups=KafkaGroups(self._clients[0]),
            ),
            target=FailbackPorts(cluster=self._forward[1], settings=self._there, groups=KafkaGroups(self._clients[1])),
            forward=options_for(flow, self._deployment_id),
            back=options_for(reverse, self._deployment_id),
            selection=flow.selection,
            back_selection=reverse.selection,
            groups=flow.groups.selection,
            guard=guard,
            fence=fence,
            known=self._known,
            feeds=lambda topic: fed_too(self._config, flow, topic),
            forward_maps=lambda: maps_of(flow, self._source, self._target, syncs_within_s=BROKER_WITHIN_S),
            back_maps=lambda: maps_of(reverse, self._target, self._source, syncs_within_s=BROKER_WITHIN_S),
            export=self._export,
            new_copier=self._copier,
            take_back=self.take_back,
            hold_tombstones=self._hold_tombstones,
            map_topics=map_topics_of(flow),
            chains=StoredStints(flow, self._source, self._target, backwards=True).chains,
        )

    async def look(self, asked: FailbackWish, fence: Fence) -> Counted:
        """Ask what the first steps ask, count and judge by the last positions, writing nothing. Raises as `count`."""
        world = self.world(_ReadGuard(self._flow.name, self._target), fence)
        reasons = list(await flow_reasons(world))
        try:
            await fence.refuse(sorted(await topics_of(world)))
        except FenceRefused as refused:
            reasons += [FailbackReason(name, NO_FENCE, why) for name, why in refused.reasons]
        counted = await count(world, asked, settles=False)
        return msgspec.structs.replace(counted, reasons=(*reasons, *counted.reasons))

    async def _hold_tombstones(self, topics: Collection[str]) -> Mapping[str, str]:
        return (await self.keep_tombstones(topics, HELD_MS)).failed

    async def _known(self) -> Mapping[TopicPartition, KnownLane]:
        return {one.lane: one for one in (await last_known_of(self._flow, self._target)).lanes}

    async def _export(self, found: Sequence[SurveyedPartition], folder: str) -> tuple[str, int]:
        """Export to a new folder in the given one: an export that was killed leaves a part of another."""
        path = Path(folder) / f"{self._flow.name}-{wall_ms()}".replace(">", "")
        prepare(path)
        exporter = PartitionExporter(str(self._flow.name), await self._source.cluster_id(), self._source, path)
        done = [await exporter.export(one) for one in found]
        return str(path), whole(done)

    def _copier(self, options: FlowOptions, source: Cluster, target: Cluster) -> FlowCopier:
        """Build a copier over the connections of its direction, which may have logins of their own."""
        del source, target
        is_forward = options.flow == self._flow.name
        clusters = self._forward if is_forward else self._back
        client = (self._forward_clients if is_forward else self._back_clients)[1]
        copier = FlowCopier(options, *clusters, _earliest)

        async def learn_expiry() -> None:
            expiry_s = await until_answered(lambda: shortest_expiry_s(client))
            if expiry_s is not None:
                copier.maintenance.producers_expire(expiry_s)

        copier.auxiliary.append(learn_expiry)
        return copier


def whole(exported: Sequence[ExportedPartition]) -> int:
    """Return how many records were exported; their topics may be deleted then.

    Raises FailbackRefused for partitions that were exported in part, or not at all.
    """
    short = [one for one in exported if one.why]
    if short:
        raise FailbackRefused([FailbackReason(NOT_EXPORTED, f"{one.topic}-{one.partition}", one.why) for one in short])
    return sum(one.records for one in exported)


def _earliest(_topic: str) -> Start:
    return Earliest()


def clusters_to_copy(
    flow: FlowConfig, clients: tuple[ClusterClient, ClusterClient]
) -> tuple[KafkaCluster, KafkaCluster]:
    """Return source and target of a direction, with the limits of a copier."""
    most = max(flow.inflated_bytes, MAX_INFLATED_BYTES)
    source, target = (
        KafkaCluster(client, request_timeout_s=flow.request_timeout_s, inflated_bytes=most) for client in clients
    )
    return source, target


class _ReadGuard:
    """The guard of a look, which reads the flow's stored state without owning it, and changes nothing."""

    def __init__(self, flow: FlowName, target: Cluster) -> None:
        self._flow, self._target = flow, target

    async def failed_over_ms(self) -> int:
        """See FailbackGuard."""
        topic = state_topic(self._flow.source)
        if not await self._target.leaders([TopicPartition(topic, 0)]):
            return -1
        return failed_over_at(StateCodec(self._flow, topic).decode(await self._target.read_records(topic)))

    async def bar(self) -> None:
        """See FailbackGuard."""

    async def admit(self) -> None:
        """See FailbackGuard."""


class StoredGuard:
    """Keeps both directions from being started, by the wanted states that are stored on both clusters.

    `moves`: what had moved by the reverse flow before; applications have left its target since.
    """

    def __init__(self, forward: StateService, back: StateService, moves: MoveLog) -> None:
        self._forward, self._back, self._moves = forward, back, moves

    async def failed_over_ms(self) -> int:
        """See FailbackGuard."""
        return failed_over_at(self._forward.load())

    async def bar(self) -> None:
        """See FailbackGuard."""
        await _want(self._back, DesiredState(state="stopped", stop="failback"))

    async def admit(self) -> None:
        """See FailbackGuard."""
        await _want(self._forward, DesiredState(state="stopped", stop="failback"))
        await self._moves.forget()
        await _want(self._back, DesiredState(state="running"), forgets=True)


async def _want(service: StateService, wanted: DesiredState, *, forgets: bool = False) -> None:
    """Store a wanted state; `forgets`: topics whose producers had moved are copied again."""
    who = f"raymirror dr failback on {socket.gethostname()}"
    stated = desired_of(service.load()).in_state(wanted.state, stop=wanted.stop)
    if forgets:
        stated = without_moved(stated, stated.moved_topics)
    await service.put({DESIRED: msgspec.structs.replace(stated, who=who, at_ms=wall_ms())})


@asynccontextmanager
async def owned(
    config: MirrorConfig,
    flow: FlowConfig,
    reverse: ReverseConfig,
    holder: StateHolder,
    known_dead: Callable[[Deployment], bool],
    moves: MoveLog,
) -> AsyncIterator[StoredGuard]:
    """Own both directions while the block runs; `moves`: see StoredGuard.

    Raises what `held` raises: FlowHeld if a mirror runs one of them.
    """
    async with AsyncExitStack() as stack:
        forward = await stack.enter_async_context(held(config, flow, holder, known_dead))
        back = await stack.enter_async_context(held(reverse.config, reverse.flow, holder, known_dead))
        yield StoredGuard(forward, back, moves)
