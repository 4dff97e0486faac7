"""Compares the clusters behind a flow's aliases with the cluster ids in its stored positions."""

from engine.base.errors import OtherCluster
from engine.config.settings import FlowConfig
from engine.core.identity.cluster_ids import other_than
from engine.core.position.position import Position
from engine.flow.ownership.stored_positions import decode_positions
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.data.positions import read_positions


async def check_clusters(flow: FlowConfig, source: ClusterClient | None, target: ClusterClient) -> bool:
    """Refuse a cluster if positions of the flow's topics name other clusters and none names this one.

    If `source` is None, only the target is checked. If brokers that lead positions are down, the positions of the other
    brokers count; return False if the missing ones could still change the result. A refused cluster is disconnected, so
    that the next `open` checks again. Raises OtherCluster, KafkaRefusal; ConnectionLost, BrokerUnreachable if no
    position can be read.
    """
    read = await read_positions(target, flow.positions_topic)
    ours = [
        position
        for lane, position in decode_positions(read.records, flow.position_keys).items()
        if isinstance(position, Position) and flow.selection.wants(lane.topic)
    ]
    named = await _check(flow, target, [one.target_cluster_id for one in ours])
    if source is not None:
        named &= await _check(flow, source, [one.source_cluster_id for one in ours])
    return read.complete or named


async def _check(flow: FlowConfig, client: ClusterClient, named: list[str]) -> bool:
    """Return whether some position names the cluster; then no other position can make it wrong."""
    # A client that has just opened knows its id: a source that goes down now must not look like one without an id.
    found = client.identity.id or (await client.metadata([])).cluster_id
    expected = other_than(found, named)
    if not expected:
        return found in named
    await client.leave()
    raise OtherCluster(
        f"cluster {client.alias!r}",
        found,
        f"the positions of flow {flow.name} in topic {flow.positions_topic} were written for cluster {expected}",
        f"let {client.alias}.bootstrap.servers lead to cluster {expected} again; if the cluster was replaced on"
        f" purpose, give the new cluster another alias, or delete topic {flow.positions_topic} and the copies on"
        f" {flow.name.target}, and raymirror copies everything again",
    )
