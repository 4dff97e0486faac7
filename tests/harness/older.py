"""A client that treats brokers as older than they are: it uses no version above a cap."""

from collections.abc import Mapping

from engine.config.security import HandshakeOptions
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.connection import Connection

FETCH, METADATA = 1, 3


class OlderClient(ClusterClient):
    """A client whose connections know versions up to `caps[api key]` only."""

    def __init__(self, alias: str, servers: str, caps: Mapping[int, int]) -> None:
        bootstrap = [(host, int(port)) for host, port in (server.rsplit(":", 1) for server in servers.split(","))]
        super().__init__(alias, bootstrap, HandshakeOptions(client_id=f"test-{alias}", timeout_s=5.0))
        self._caps = caps

    async def open_connection(self, node: int) -> Connection:
        """Open a connection and forget the newer versions."""
        connection = await super().open_connection(node)
        for key, cap in self._caps.items():
            low, high = connection.versions[key]
            connection.versions[key] = low, min(high, cap)
        return connection
