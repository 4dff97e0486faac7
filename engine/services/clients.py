"""Clients of clusters out of a configuration. By itself, so that a command that only asks brokers starts quickly."""

from engine.config.secrets import handshake_options
from engine.config.settings import ClusterConfig
from engine.kafka.client.cluster import ClusterClient


def client_for(cluster: ClusterConfig, client_id: str) -> ClusterClient:
    """Make the client of a cluster; placeholders are resolved here, in the process that connects."""
    options = handshake_options(cluster, client_id)
    return ClusterClient(cluster.alias, list(cluster.bootstrap), options, cluster.bootstrap_place())
