"""Builds clients of configured clusters. It imports little, so that a command that only asks brokers starts fast."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from engine.config.secrets import handshake_options
from engine.config.settings import ClusterConfig, MirrorConfig
from engine.config.tuning.client_tuning import ClientTuning
from engine.kafka.client.cluster import ClusterClient
from policies.model import FlowName

_UNTUNED = ClientTuning()


def client_for(cluster: ClusterConfig, client_id: str, tuning: ClientTuning = _UNTUNED) -> ClusterClient:
    """Build the client of a cluster. Placeholders are resolved here, in the process that connects."""
    shake = handshake_options(cluster.for_client(tuning.login), tuning.whole_id(client_id))
    options = msgspec.structs.replace(shake, timeout_s=tuning.setup_s, tuning=tuning)
    return ClusterClient(cluster.alias, list(cluster.bootstrap), options, cluster.bootstrap_place())


def clients_of(config: MirrorConfig, flow: FlowName, client_id: str) -> tuple[ClusterClient, ClusterClient]:
    """Build clients of a flow's source and target that do not copy: the settings of its admin clients hold."""
    (source, target), found = (config.clusters[alias] for alias in flow), config.flow(flow)
    return client_for(source, client_id, found.source_admin), client_for(target, client_id, found.target_admin)


def copying_clients(config: MirrorConfig, flow: FlowName, client_id: str) -> tuple[ClusterClient, ClusterClient]:
    """Build the clients of a copier: the settings of the flow's consumer and producer hold."""
    (source, target), found = (config.clusters[alias] for alias in flow), config.flow(flow)
    return client_for(source, client_id, found.source_client), client_for(target, client_id, found.target_client)


def syncs_client(config: MirrorConfig, flow: FlowName, client_id: str) -> ClusterClient | None:
    """Build the client that writes offset syncs; None if a client of `copying_clients` writes them."""
    syncs = config.flow(flow).syncs
    return None if syncs.client is None else client_for(config.clusters[syncs.cluster], client_id, syncs.client)


def asking_client(config: MirrorConfig, alias: str, client_id: str) -> ClusterClient:
    """Build a client of a cluster for whoever asks it for no single flow: the first flow's admin settings hold."""
    return client_for(config.clusters[alias], client_id, admin_tuning(config, alias))


def admin_tuning(config: MirrorConfig, alias: str) -> ClientTuning:
    """Return the settings of whoever asks a cluster for no single flow: those of the first flow's admin client."""
    for flow in config.flows:
        if flow.name.source == alias:
            return flow.source_admin
        if flow.name.target == alias:
            return flow.target_admin
    return _UNTUNED


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
