"""Compares the clusters that a flow's aliases lead to with those that its stored positions name."""

from engine.base.errors import OtherCluster
from engine.config.settings import FlowConfig
from engine.core.identity.cluster_ids import other_than
from engine.core.position.position import Position
from engine.flow.ownership.stored_positions import decode_positions
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.data.positions import read_positions


async def check_clusters(flow: FlowConfig, source: ClusterClient | None, target: ClusterClient) -> bool:
    """Refuse clusters that no position of a topic of the flow names, where some name others.

    None as the source: only the target is judged. Where brokers are away that lead positions, those of the others
    count; return False where the rest may still say something else. What is refused is forgotten, so that the next
    `open` looks again. Raises OtherCluster, KafkaRefusal; ConnectionLost, BrokerUnreachable where none can be read.
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
    """Return whether some position names the cluster: then no other one can speak against it."""
    # One that has just opened knows: a source that goes away now must not look like one that cannot be judged.
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
        f" purpose, give the new one an alias of its own, or delete topic {flow.positions_topic} and the copies on"
        f" {flow.name.target}, and everything is copied again",
    )
