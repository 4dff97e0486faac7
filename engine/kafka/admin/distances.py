"""Measures how far the brokers of a cluster are, and asks for the socket buffers that bound a connection there."""

import msgspec

from engine.base.clock import now_s
from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.kafka.admin.admin import configs_of
from engine.kafka.client.cluster import ClusterClient

SEND_BUFFER, RECEIVE_BUFFER = "socket.send.buffer.bytes", "socket.receive.buffer.bytes"
_TIMES = 3
"""The shortest of so many questions counts: a busy broker is not a distant one."""


class BrokerDistance(msgspec.Struct, frozen=True):
    """One broker: its shortest round trip in seconds, and its socket buffers in bytes.

    -1: as the operating system likes (Kafka's own meaning of -1). None: raymirror has no right to ask.
    """

    node: int
    round_trip_s: float
    send_bytes: int | None
    receive_bytes: int | None


async def broker_distances(client: ClusterClient) -> list[BrokerDistance]:
    """Ask every known broker that answers, one after the other."""
    found: list[BrokerDistance] = []
    for node in client.nodes:
        try:
            found.append(await _distance(client, node))
        except (BrokerUnreachable, ConnectionLost):
            continue  # the check says elsewhere that it is unreachable
    return found


async def _distance(client: ClusterClient, node: int) -> BrokerDistance:
    values = await configs_of(client, node, (SEND_BUFFER, RECEIVE_BUFFER))  # opens the connection
    shortest_s = float("inf")
    for _ in range(_TIMES):
        from_s = now_s()
        await configs_of(client, node, (SEND_BUFFER,))
        shortest_s = min(shortest_s, now_s() - from_s)
    return BrokerDistance(node, shortest_s, _bytes(values, SEND_BUFFER), _bytes(values, RECEIVE_BUFFER))


def _bytes(values: dict[str, str], name: str) -> int | None:
    return int(values[name]) if name in values else None
