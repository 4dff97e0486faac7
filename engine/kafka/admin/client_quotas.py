"""Reads what a cluster has for single users: client quotas (DescribeClientQuotas v0, KIP-546: since Kafka 2.6), and
which users have SCRAM credentials (DescribeUserScramCredentials v0, KIP-554: since Kafka 2.7).

No broker tells the credentials themselves: neither salt nor keys.
"""

import asyncio
from collections.abc import Mapping

from aiokafka.protocol.admin import DescribeClientQuotasRequest

from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.protocol.faults import NONE
from engine.kafka.protocol.requests import DescribeScramUsers
from policies.sync.client_quotas import ClientQuota

_KEY, _VERSION = 48, 0
_BROKER_S = 5.0
_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


async def client_quotas(client: ClusterClient) -> tuple[ClientQuota, ...]:
    """Return all quotas; none if the cluster does not answer the request.

    Brokers before 2.6 do not have the request. It needs DescribeConfigs on the cluster.
    """
    return await told_quotas(client) or ()


async def told_quotas(client: ClusterClient) -> tuple[ClientQuota, ...] | None:
    """Return all quotas; None if the cluster does not answer the request, as for `client_quotas`."""
    try:
        async with asyncio.timeout(_BROKER_S):
            connection = await client.any_connection()
            if not connection.supports(_KEY, _VERSION):
                return None
            answer = await connection.call(DescribeClientQuotasRequest([], strict=False))
    except (TimeoutError, ConnectionLost, BrokerUnreachable):
        return None
    if answer.error_code != NONE:
        return None
    return tuple(ClientQuota(dict(entity), dict(limits)) for entity, limits in answer.entries or ())


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
