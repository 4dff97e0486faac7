"""Builds clients of configured clusters. It imports little, so that a command that only asks brokers starts fast."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from engine.config.secrets import handshake_options
from engine.config.settings import ClusterConfig, MirrorConfig
from engine.kafka.client.cluster import ClusterClient
from policies.model import FlowName


def client_for(cluster: ClusterConfig, client_id: str) -> ClusterClient:
    """Build the client of a cluster. Placeholders are resolved here, in the process that connects."""
    options = handshake_options(cluster, client_id)
    return ClusterClient(cluster.alias, list(cluster.bootstrap), options, cluster.bootstrap_place())


def clients_of(config: MirrorConfig, flow: FlowName, client_id: str) -> tuple[ClusterClient, ClusterClient]:
    """Build the clients of a flow's source and target."""
    source, target = (config.clusters[alias] for alias in flow)
    return client_for(source, client_id), client_for(target, client_id)


@asynccontextmanager
async def opened(*clients: ClusterClient) -> AsyncIterator[None]:
    """Connect, and disconnect at the end, also if connecting failed half-way. Raises as `ClusterClient.open`."""
    try:
        for client in clients:
            await client.open()
        yield
    finally:
        for client in clients:
            await client.close()
