"""Builds the readers of what a flow's copiers write: positions, offset maps, refused records."""

from collections.abc import Iterable

import msgspec

from engine.config.settings import FlowConfig
from engine.flow.ports.ports import Cluster
from engine.flow.refused.quarantine_reader import QuarantineReader
from engine.flow.topic_logs.last_known import LastKnown, last_known
from engine.flow.topic_logs.map_reader import MapOptions, MapReader
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.gateway import KafkaCluster

_SYNCS_SINCE_S = 300.0


def clusters_of(flow: FlowConfig, clients: Iterable[ClusterClient]) -> tuple[KafkaCluster, KafkaCluster]:
    """Return source and target of a flow as the engine's port `Cluster`."""
    source, target = (KafkaCluster(client, request_timeout_s=flow.request_timeout_s) for client in clients)
    return source, target


async def last_known_of(flow: FlowConfig, target: KafkaCluster) -> LastKnown:
    """Read how far every partition of a flow was copied. Raises what `last_known` raises."""
    return await last_known(target, flow.positions_topic, flow.positions_partitions, flow.position_keys, flow.selection)


def maps_of(
    flow: FlowConfig,
    source: KafkaCluster,
    target: KafkaCluster,
    *,
    bears_away: bool = False,
    syncs_within_s: float | None = None,
) -> MapReader:
    """Build the reader of a flow's maps; it reads offset syncs if the flow writes them.

    `bears_away`: if a broker is unreachable, only lanes whose map or position it leads have no answers.
    `syncs_within_s`: after this many seconds the reader continues without offset syncs (None: it waits, or fails).
    """
    syncs = flow.syncs
    options = MapOptions(
        positions_topic=flow.positions_topic,
        position_keys=flow.position_keys,
        positions_partitions=flow.positions_partitions,
        syncs_topic=syncs.topic if syncs.enabled else "",
        syncs_since_s=max(_SYNCS_SINCE_S, 3 * flow.flush_s),
        bears_away=bears_away,
        syncs_within_s=syncs_within_s,
    )
    return MapReader(options, target, source if syncs.cluster == flow.name.source else target)


def quarantine_reader_of(flow: FlowConfig, target: Cluster) -> QuarantineReader:
    """Build the reader of the records that a flow's target has refused; without such a topic it finds none."""
    return QuarantineReader(target, flow.name.source, is_used=flow.faults.leaves_out)


def stored_maps_of(flow: FlowConfig, source: KafkaCluster, target: KafkaCluster) -> MapReader:
    """Build the reader of a flow's maps as positions have them: without offset syncs, which may be ahead of them."""
    stored = msgspec.structs.replace(flow, syncs=msgspec.structs.replace(flow.syncs, enabled=False))
    return maps_of(stored, source, target)
