"""Connects within bounded time to a source that may be down, for commands that work without it."""

import asyncio

from engine.base.errors import BrokerUnreachable, ConnectionLost, OtherCluster
from engine.config.settings import FlowConfig
from engine.kafka.admin.flow_clusters import check_clusters
from engine.kafka.admin.sameness import within_one_cluster
from engine.kafka.client.cluster import ClusterClient

SOURCE_WITHIN_S = 10.0
"""A source that does not answer for this many seconds counts as down."""
_GONE = (BrokerUnreachable, ConnectionLost, OSError, TimeoutError)


async def open_source(source: ClusterClient) -> str:
    """Connect to the source; return why it cannot be used, empty if it can."""
    try:
        async with asyncio.timeout(SOURCE_WITHIN_S):
            await source.open()
    except _GONE as gone:
        return str(gone) or f"no answer within {SOURCE_WITHIN_S:.0f} s"
    return ""


async def open_known_source(flow: FlowConfig, source: ClusterClient, target: ClusterClient) -> str:
    """Connect to the source and compare it with a flow's stored positions; the target must be connected.

    Return why the source cannot be used, also if it is another cluster; empty if it can. Raises SameCluster if it is
    the target; KafkaRefusal, ConnectionLost, BrokerUnreachable of the target.
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
    """Compare the two connected clusters of a flow; return why the source cannot be used, empty if it can.

    Raises SameCluster if both are one cluster and the flow does not allow that; ConnectionLost, BrokerUnreachable of
    the target.
    """
    there = await target.metadata(None)
    try:
        async with asyncio.timeout(SOURCE_WITHIN_S):
            here = await source.metadata(None)
    except _GONE as gone:
        return str(gone) or f"no answer within {SOURCE_WITHIN_S:.0f} s"
    within_one_cluster(flow, here, there)
    return ""
