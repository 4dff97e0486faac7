"""Reads the client quotas of a cluster (DescribeClientQuotas v0, KIP-546: since Kafka 2.6)."""

import asyncio

from aiokafka.protocol.admin import DescribeClientQuotasRequest

from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.protocol.faults import NONE
from policies.sync.client_quotas import ClientQuota

_KEY, _VERSION = 48, 0
_BROKER_S = 5.0


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
