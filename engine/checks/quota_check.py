"""Says before a start which quotas of the two clusters limit a flow."""

from collections.abc import Iterator, Mapping

from engine.config.secrets import known_user
from engine.config.settings import FlowConfig, MirrorConfig
from engine.kafka.admin.client_quotas import client_quotas
from engine.kafka.client.cluster import ClusterClient
from policies.sync.client_quotas import (
    FETCH_BYTES,
    PARTITIONS_PER_S,
    PRODUCE_BYTES,
    REQUEST_PERCENT,
    ClientQuota,
    limiting,
)

_MIB = 1024 * 1024


async def quota_doubts(config: MirrorConfig, flow: FlowConfig, clients: Mapping[str, ClusterClient]) -> tuple[str, ...]:
    """Return a sentence for each quota that limits the flow. Raises ConfigError (a placeholder)."""
    found: list[str] = []
    for alias, login, limits in (
        (flow.name.source, flow.source_client.login, (FETCH_BYTES, REQUEST_PERCENT)),
        (flow.name.target, flow.target_client.login, (PRODUCE_BYTES, REQUEST_PERCENT, PARTITIONS_PER_S)),
    ):
        quotas = await client_quotas(clients[alias])
        user = known_user(config.clusters[alias].for_client(login)) if quotas else ""
        for limit in limits:
            client_id = flow.target_client.client_id if limit == PRODUCE_BYTES else ""
            if quota := limiting(quotas, limit, user, client_id):
                found.extend(_told(alias, limit, quota))
    return tuple(found)


def _told(alias: str, limit: str, quota: ClientQuota) -> Iterator[str]:
    value, by = quota.limits[limit], f"({limit} of {quota.name})"
    of_us = f"cluster {alias!r} limits raymirror's"
    if limit == PRODUCE_BYTES:
        yield f"{of_us} writes to {value / _MIB:,.1f} MiB/s per broker {by}: copying can be no faster"
    elif limit == FETCH_BYTES:
        yield f"{of_us} reads to {value / _MIB:,.1f} MiB/s per broker {by}: copying can be no faster"
    elif limit == REQUEST_PERCENT:
        yield f"{of_us} requests to {value:g} % of a handler thread per broker {by}: many partitions may be slow"
    else:
        yield f"{of_us} creation of partitions to {value:g} a second {by}: many topics take that long to appear"
