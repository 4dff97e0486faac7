"""Connects to the two clusters of a flow to drive its operations, or only to read them; one of the two may be dead."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import msgspec

from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal, MirrorError
from engine.base.opened import Opened
from engine.base.tasks import first_cause
from engine.config.settings import FlowConfig, MirrorConfig
from engine.flow.operations.reading import OperationCopy, read_copy
from engine.flow.operations.store import DEAD_AFTER_S, OperationStore
from engine.flow.ports.ports import Cluster
from engine.flow.ports.state_options import StateOptions
from engine.flow.topic_logs.last_known import stored_state
from engine.flow.topic_logs.state_log import StateLog
from engine.kafka.admin.flow_clusters import check_clusters
from engine.kafka.admin.internal_topics import STATE_CONFIGS, ensure_internal_topic
from engine.kafka.admin.reach import SOURCE_WITHIN_S, open_known_source, open_source
from engine.kafka.client.cluster import ClusterClient
from engine.services.clients import clients_of
from engine.services.maps import clusters_of
from engine.state.state import OPERATION_SCOPE, DesiredState, StateHolder, desired_of, state_topic
from policies.dr.operation_steps import FlowSide
from policies.dr.operations import DrOperation, in_force
from policies.model import FlowName

CLIENT_ID = "raymirror-operation"


class NoClusterAnswers(MirrorError):
    """Neither cluster of a flow answers: why, by alias."""

    exit_code = 2

    def __init__(self, why: dict[str, str]) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return "; ".join(f"cluster {alias!r}: {why}" for alias, why in self.why.items())


class ClusterUnread(MirrorError):
    """The wanted state of a flow cannot be read on its target: flow, alias of the cluster, why."""

    exit_code = 2

    def __init__(self, flow: str, alias: str, why: str) -> None:
        super().__init__(flow, alias, why)
        self.flow, self.alias, self.why = flow, alias, why

    def __str__(self) -> str:
        return f"the wanted state of {self.flow} cannot be read on cluster {self.alias!r}: {self.why}"


class OperationClusters(Opened):
    """The two clusters of a flow, as an async context. `away`: those that cannot be used, and why.

    Raises NoClusterAnswers if none can; OtherCluster if the target is another one than positions name; SameCluster.
    """

    def __init__(self, config: MirrorConfig, flow: FlowConfig) -> None:
        self.flow = flow
        source, target = clients_of(config, flow.name, CLIENT_ID)
        self._clients = {FlowSide.SOURCE: source, FlowSide.TARGET: target}
        self._ports = dict(zip(FlowSide, clusters_of(flow, (source, target)), strict=True))
        self.away: dict[FlowSide, str] = {}

    async def _open(self) -> None:
        source, target = self._clients[FlowSide.SOURCE], self._clients[FlowSide.TARGET]
        found = {FlowSide.TARGET: await open_source(target)}
        if found[FlowSide.TARGET]:
            found[FlowSide.SOURCE] = await open_source(source)
        else:
            await check_clusters(self.flow, None, target)
            found[FlowSide.SOURCE] = await open_known_source(self.flow, source, target)
        self.away = {side: why for side, why in found.items() if why}
        if len(self.away) == len(self._clients):
            raise NoClusterAnswers({self.client(side).alias: why for side, why in self.away.items()})

    async def _close(self) -> None:
        for client in self._clients.values():
            await client.close()

    def client(self, side: FlowSide) -> ClusterClient:
        """Return the connection to a cluster."""
        return self._clients[side]

    @property
    def answering(self) -> tuple[FlowSide, ...]:
        """The clusters that can be used, in the order in which every driver takes their state topics."""
        sides = (side for side in FlowSide if side not in self.away)
        return tuple(sorted(sides, key=lambda side: self._clients[side].alias))

    def into(self, side: FlowSide) -> FlowName:
        """Return the flow whose target is this cluster: its state topic has the operations."""
        return self.flow.name if side is FlowSide.TARGET else FlowName(self.flow.name.target, self.flow.name.source)

    async def read(self) -> "StoredOperations":
        """Read what the clusters that answer have, without taking anything. Raises NoClusterAnswers."""
        copies, away = dict[FlowSide, OperationCopy](), dict(self.away)
        for side in self.answering:
            try:
                async with asyncio.timeout(SOURCE_WITHIN_S):
                    copies[side] = await read_copy(self._ports[side], self.into(side))
            except (BrokerUnreachable, ConnectionLost, KafkaRefusal, TimeoutError) as gone:
                away[side] = str(gone) or f"no answer within {SOURCE_WITHIN_S:.0f} s"
        if not copies:
            raise NoClusterAnswers({self.client(side).alias: why for side, why in away.items()})
        return StoredOperations(copies=copies, away=away)

    async def wanted(self, side: FlowSide) -> DesiredState:
        """Read the wanted state of the flow into a cluster.

        Raises ClusterUnread if it cannot be read, NewerFormat, StateUnreadable.
        """
        flow = self.into(side)
        if side in self.away:
            raise ClusterUnread(str(flow), self.client(side).alias, self.away[side])
        try:
            async with asyncio.timeout(SOURCE_WITHIN_S):
                return desired_of(await stored_state(self._ports[side], flow))
        except (BrokerUnreachable, ConnectionLost, KafkaRefusal, TimeoutError) as gone:
            why = str(gone) or f"no answer within {SOURCE_WITHIN_S:.0f} s"
            raise ClusterUnread(str(flow), self.client(side).alias, why) from gone

    @asynccontextmanager
    async def driving(self, holder: StateHolder) -> AsyncIterator[OperationStore]:
        """Drive the operations while the block runs, and keep the lease.

        Raises OperationHeld if another driver is alive, OperationTaken in the block if one takes over; KafkaRefusal,
        BrokerUnreachable, ConnectionLost, NewerFormat, StateUnreadable.
        """
        logs: dict[FlowSide, StateLog] = {}
        for side in self.answering:
            replicas = self.flow.positions_replication_factor
            logs[side] = await operation_log(self._clients[side], self._ports[side], self.into(side), replicas, holder)
        async with leased(OperationStore(str(self.flow.name), logs)) as store:
            yield store


async def operation_log(
    client: ClusterClient, cluster: Cluster, into: FlowName, replicas: int, holder: StateHolder
) -> StateLog:
    """Return the log of operations on a cluster, which is the target of flow `into`; its topic is made if need be.

    Raises KafkaRefusal, BrokerUnreachable.
    """
    options = StateOptions(
        flow=into,
        topic=state_topic(into.source),
        scope=OPERATION_SCOPE,
        dead_after_s=DEAD_AFTER_S,
        kin_dead_after_s=DEAD_AFTER_S,
    )
    await ensure_internal_topic(client, options.topic, replicas, STATE_CONFIGS)
    return StateLog(options, cluster, holder)


@asynccontextmanager
async def leased(store: OperationStore) -> AsyncIterator[OperationStore]:
    """Own a store while the block runs. Raises what `OperationClusters.driving` raises."""
    try:
        await store.open()
        async with asyncio.TaskGroup() as group:
            renewing = group.create_task(store.run())
            yield store
            renewing.cancel()
    except BaseExceptionGroup as failures:
        raise first_cause(failures) from None
    finally:
        await store.close()


class StoredOperations(msgspec.Struct, frozen=True, kw_only=True):
    """The operations between two clusters as they are stored now. `away`: clusters that could not be read, and why."""

    copies: Mapping[FlowSide, OperationCopy]
    away: Mapping[FlowSide, str] = {}

    @property
    def operations(self) -> tuple[DrOperation, ...]:
        """All operations, the oldest first; of each the copy that is in force."""
        return tuple(in_force(copy.operations for copy in self.copies.values()).values())

    def notes(self, operation: DrOperation, name: str) -> list[msgspec.Raw]:
        """Return the rows that an operation has under a name, as JSON; empty if there are none."""
        found = (copy.notes(operation, name) for copy in self.copies.values())
        return next((rows for rows in found if rows is not None), [])
