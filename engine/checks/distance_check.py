"""Says before a start how fast one partition can be copied over a distance, and what would lift that bound."""

from collections.abc import Mapping, Sequence

from engine.config.settings import FlowConfig
from engine.flow.io.far_paths import FAR_S
from engine.kafka.admin.distances import RECEIVE_BUFFER, SEND_BUFFER, BrokerDistance, broker_distances
from engine.kafka.client.cluster import ClusterClient

_MIB = 1024 * 1024
_SENT = 1.5
"""Linux holds about so many times SO_SNDBUF under way (146 KiB measured with 100 KiB)."""


async def distance_doubts(flow: FlowConfig, clients: Mapping[str, ClusterClient]) -> tuple[str, ...]:
    """Return a sentence for each cluster that is far away and whose brokers have small socket buffers."""
    source = source_doubt(flow, await broker_distances(clients[flow.name.source]))
    target = target_doubt(flow, await broker_distances(clients[flow.name.target]))
    return tuple(text for text in (source, target) if text)


def source_doubt(flow: FlowConfig, brokers: Sequence[BrokerDistance]) -> str:
    """Say what one connection to a distant source brings; empty if it is near, or its buffers do not bound it."""
    slowest = _slowest([(one, one.send_bytes) for one in brokers])
    if slowest is None:
        return ""
    one, rate = slowest[0], slowest[1] * _SENT
    most = flow.source_connections
    way = (
        f"a partition with a backlog is read over up to {most} of them (raymirror.source.connections)"
        if most > 1
        else "and raymirror.source.connections = 1 permits no more"
    )
    return (
        f"{_far(flow.name.source, one)} {SEND_BUFFER}={one.send_bytes}, so one connection brings at most about"
        f" {rate / _MIB:.1f} MiB/s: {way}; {SEND_BUFFER}=-1 there lifts it"
    )


def target_doubt(flow: FlowConfig, brokers: Sequence[BrokerDistance]) -> str:
    """Say how fast a partition is copied to a distant target; empty if it is near, or its buffers do not bound it."""
    slowest = _slowest([(one, one.receive_bytes) for one in brokers])
    if slowest is None:
        return ""
    one, rate = slowest
    return (
        f"{_far(flow.name.target, one)} {RECEIVE_BUFFER}={one.receive_bytes}, so one partition is copied at most at"
        f" about {rate / _MIB:.1f} MiB/s, because its order needs one connection; {RECEIVE_BUFFER}=-1 there lifts it,"
        " and copiers near the target need less"
    )


def _slowest(buffers: Sequence[tuple[BrokerDistance, int | None]]) -> tuple[BrokerDistance, float] | None:
    """Return the distant broker with the least buffer by round trip, in bytes per second; None without one."""
    rates = [(one, size / one.round_trip_s) for one, size in buffers if size and size > 0 and one.round_trip_s >= FAR_S]
    return min(rates, key=lambda rate: rate[1], default=None)


def _far(alias: str, one: BrokerDistance) -> str:
    return f"cluster {alias!r} is {one.round_trip_s * 1000:.0f} ms away: broker {one.node} has"
