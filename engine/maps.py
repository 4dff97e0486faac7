"""Composition: the exact maps of a flow's lanes, read from what its copiers leave on its clusters."""

from engine.flow.map_reader import MapReader, MapTerms
from engine.flow.sync_reader import SyncReader
from engine.kafka.gateway import KafkaCluster
from engine.settings import FlowConfig


def maps_of(flow: FlowConfig, source: KafkaCluster, target: KafkaCluster) -> MapReader:
    """Make the reader of a flow's maps; it reads offset syncs where the flow writes any."""
    syncs = flow.syncs
    terms = MapTerms(
        flow=flow.name,
        positions_topic=flow.positions_topic,
        positions_partitions=flow.positions_partitions,
        syncs_topic=syncs.topic if syncs.enabled else "",
    )
    return MapReader(terms, target, source if syncs.cluster == flow.name.source else target)


def near_of(flow: FlowConfig, source: KafkaCluster, target: KafkaCluster) -> SyncReader:
    """Make the reader of offset syncs as MM2 reads them, for what lies below the maps."""
    return SyncReader(source if flow.syncs.cluster == flow.name.source else target, flow.syncs.topic)
