"""Connecting to a source that may be gone, in bounded time: for commands that can do without it."""

import asyncio

from engine.errors import BrokerUnreachable, ConnectionLost
from engine.kafka.cluster import ClusterClient

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
