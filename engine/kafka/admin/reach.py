"""Connecting to a source that may be gone, in bounded time: for commands that can do without it."""

import asyncio

from engine.base.errors import BrokerUnreachable, ConnectionLost, OtherCluster
from engine.config.settings import FlowConfig
from engine.kafka.admin.flow_clusters import check_clusters
from engine.kafka.admin.sameness import within_one_cluster
from engine.kafka.client.cluster import ClusterClient

SOURCE_WITHIN_S = 10.0
"""A source that does not answer for so long is taken for gone."""
_GONE = (BrokerUnreachable, ConnectionLost, OSError, TimeoutError)


async def open_source(source: ClusterClient) -> str:
    """Connect to the source; return why it cannot be asked, empty where it can."""
    try:
        async with asyncio.timeout(SOURCE_WITHIN_S):
            await source.open()
    except _GONE as gone:
        return str(gone) or f"no answer within {SOURCE_WITHIN_S:.0f} s"
    return ""


async def open_known_source(flow: FlowConfig, source: ClusterClient, target: ClusterClient) -> str:
    """Connect to the source that a flow's stored positions name, once its target is connected.

    Return why it cannot be asked, which a source that is another cluster cannot either; empty where it can. Raises
    SameCluster where it is the target; KafkaRefusal, ConnectionLost, BrokerUnreachable of the target.
    """
    gone = await open_source(source)
    if gone:
        return gone
    try:
        await check_clusters(flow, source, target)
    except OtherCluster as other:
        return str(other)
    return await tell_apart(flow, source, target)


async def tell_apart(flow: FlowConfig, source: ClusterClient, target: ClusterClient) -> str:
    """Compare the clusters of a flow, both connected; return why the source cannot be asked, empty where it can.

    Raises SameCluster where both are one and the flow does not allow it; ConnectionLost, BrokerUnreachable of the
    target.
    """
    there = await target.metadata(None)
    try:
        async with asyncio.timeout(SOURCE_WITHIN_S):
            here = await source.metadata(None)
    except _GONE as gone:
        return str(gone) or f"no answer within {SOURCE_WITHIN_S:.0f} s"
    within_one_cluster(flow, here, there)
    return ""
