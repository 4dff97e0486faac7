"""Builds the copier of a flow from its configuration. Knows Kafka, not Ray."""

from collections.abc import Mapping

import msgspec

from engine.base.tasks import run_all
from engine.config.settings import FlowConfig, MirrorConfig
from engine.config.tuning.client_tuning import RECONNECT, ClientTuning
from engine.core.events.events import ClusterChanged
from engine.core.lane.pending_batch import Limits
from engine.core.lane.rebatching import rebatch_rules
from engine.core.reports.progress import FlowProgress, LaneProgress
from engine.flow.lane.bounded_retry import until_answered
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ports.options import ClusterPace, FlowOptions, SyncOptions
from engine.flow.replication.copier import FlowCopier
from engine.kafka.admin.admin import shortest_expiry_s
from engine.kafka.admin.flow_clusters import check_clusters
from engine.kafka.gateway import KafkaCluster
from engine.services.clients import copying_clients, syncs_client
from engine.services.opening import Opening
from engine.services.sampling import sample_writer
from engine.wire.bounded import MAX_INFLATED_BYTES


def options_for(flow: FlowConfig, deployment_id: str) -> FlowOptions:
    """Return the part of a flow's configuration that its copier needs."""
    return FlowOptions(
        flow=flow.name,
        deployment_id=deployment_id,
        positions_topic=flow.positions_topic,
        connector=flow.connector,
        positions_partitions=flow.positions_partitions,
        buffer_budget_bytes=flow.buffer_budget_bytes,
        inflated_bytes=flow.inflated_bytes,
        flush_s=flow.flush_s,
        fetch=flow.fetch,
        partition_fetch_bytes=flow.partition_fetch_bytes,
        range_bytes=flow.range_bytes,
        range_connections=flow.source_connections,
        limits=Limits(
            max_in_flight=flow.max_in_flight, rebatch=rebatch_rules(flow.rebatch_hints) if flow.rebatch else None
        ),
        codec=flow.codec,
        stop_on_foreign_writer=flow.stop_on_foreign_writer,
        faults=flow.faults,
        mm2_read_committed=flow.mm2_read_committed,
        request_timeout_s=flow.request_timeout_s,
        request_bytes=flow.request_bytes,
        source_pace=_pace(flow.source_client),
        target_pace=_pace(flow.target_client),
        syncs=_sync_options(flow),
        commit_s=flow.commit_s,
    )


def _pace(tuning: ClientTuning) -> ClusterPace:
    return ClusterPace(retry=tuning.retry, reconnect=tuning.reconnect or RECONNECT, leaders_s=tuning.leaders_s)


def _sync_options(flow: FlowConfig) -> SyncOptions | None:
    syncs = flow.syncs
    if not syncs.enabled:
        return None
    return SyncOptions(topic=syncs.topic, on_source=syncs.cluster == flow.name.source, lag_max=syncs.lag_max)


class Copier(FlowCopier):
    """The copier of one flow in one process, over connections of its own: `run` opens them, and closes them."""

    def __init__(self, config: MirrorConfig, flow: FlowConfig, *, copier_id: str, deployment_id: str) -> None:
        self._config = flow
        client_id = f"raymirror|{flow.name}|{copier_id}"
        self._clients = copying_clients(config, flow.name, client_id)
        syncs = syncs_client(config, flow.name, f"{client_id}|syncs")
        self._all_clients = (*self._clients, *((syncs,) if syncs is not None else ()))
        # A lower limit holds for re-encoded batches only: a batch that is copied unchanged may be larger.
        most = max(flow.inflated_bytes, MAX_INFLATED_BYTES)
        source, target, *syncs_to = (
            KafkaCluster(client, request_timeout_s=flow.request_timeout_s, inflated_bytes=most)
            for client in self._all_clients
        )
        super().__init__(options_for(flow, deployment_id), source, target, flow.starts.start_for, *syncs_to)
        self._latest: FlowProgress | None = None
        self.auxiliary.append(self._learn_expiry)
        samples = sample_writer(flow, copier_id, self._clients[1], target, lambda: self._latest, self.report)
        if samples is not None:
            self.auxiliary.append(samples.run)
        self._opening = Opening(self._reach, self.maintenance.tick)

    async def run(self) -> None:
        """Copy until drained; wait for a cluster that is unreachable at the start, and show that in `progress`."""
        try:
            if await self._opening.run():
                await super().run()
        finally:
            for client in self._all_clients:
                await client.close()

    async def _reach(self) -> None:
        await run_all(*(client.open() for client in self._all_clients))
        # Discovery checked other connections, perhaps before the addresses led elsewhere. And a lane without a
        # position has nothing that names its clusters.
        await check_clusters(self._config, *self._clients)

    async def _learn_expiry(self) -> None:
        """Ask all brokers how long they remember producers, in parallel with the copy: slow brokers do not delay it."""
        expiry_s = await until_answered(lambda: shortest_expiry_s(self._clients[1]))
        if expiry_s is not None:
            self.maintenance.producers_expire(expiry_s)

    def _snapshot(self, known: Mapping[LaneDriver, LaneProgress]) -> FlowProgress:
        """Complete a snapshot, with what the connections show."""
        for client in self._all_clients:
            for other in client.identity.take_others():
                self.report(
                    ClusterChanged(flow=self._config.name, cluster=client.alias, found=other.found, what=str(other))
                )
        progress = msgspec.structs.replace(
            super()._snapshot(known), waits_for=self._opening.trouble, is_open=self._opening.is_done
        )
        self._latest = progress  # progress samples reuse this snapshot
        return progress

    async def drain(self) -> None:
        """Finish the batches in flight and make positions durable; `run` then returns."""
        self._opening.give_up()
        await super().drain()
