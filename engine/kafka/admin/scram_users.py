"""Reads which users of a cluster have SCRAM credentials (DescribeUserScramCredentials v0, KIP-554: since Kafka 2.7).

No broker tells the credentials themselves: neither salt nor keys.
"""

import asyncio
from collections.abc import Mapping

from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.protocol.faults import NONE
from engine.kafka.protocol.requests import DescribeScramUsers

_BROKER_S = 5.0
_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


async def scram_users(client: ClusterClient) -> Mapping[str, frozenset[str]] | None:
    """Return users and their mechanisms; None if the cluster does not answer the request.

    It needs Describe on the cluster.
    """
    try:
        async with asyncio.timeout(_BROKER_S):
            connection = await client.any_connection()
            if not DescribeScramUsers.spoken_by(connection):
                return None
            answer = await connection.call(DescribeScramUsers())
    except (TimeoutError, ConnectionLost, BrokerUnreachable):
        return None
    if answer.error_code != NONE:
        return None
    return {
        user: frozenset(_MECHANISMS.get(row[0], f"mechanism {row[0]}") for row in credentials)
        for user, code, _, credentials, *_ in answer.results
        if code == NONE
    }
