"""Clusters of three brokers at a distance, whose replicas are stopped, fall out of sync and are elected."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.recovery.fronted import FrontedCluster
from bench.recovery.leading import led
from bench.recovery.stage import describe
from deploy.local.broker import Broker
from deploy.local.cluster import EmbeddedCluster
from engine.base.clock import now_s

HALF_TRIP_S = 0.025
QUICK_SESSIONS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "2000",
}
"""A broker that is stopped is out of sync after two seconds, and leads nothing after three."""
DEADLINE_S = 120.0
_POLL_S = 0.1


def distant_cluster(name: str, folder: Path, overrides: dict[str, str]) -> FrontedCluster:
    """Make a cluster of three brokers, 50 ms away for clients of `mirror_servers`."""
    made = FrontedCluster(name, folder, brokers=3, overrides=QUICK_SESSIONS | overrides, heap_mib=512)
    for proxy in made.fronts.proxies:
        proxy.request_delay_s = proxy.response_delay_s = HALF_TRIP_S
    return made


@contextmanager
def stopped(broker: Broker) -> Iterator[None]:
    """Stop a broker's process during the block; its connections stay."""
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        resume(broker)


def resume(broker: Broker) -> None:
    """Let a stopped process continue."""
    if broker.pid is not None:
        os.kill(broker.pid, signal.SIGCONT)


async def until_led(cluster: FrontedCluster, topic: str, leader: int) -> None:
    """Wait until a broker (-1: none) leads partition 0 of a topic."""
    give_up_at_s = now_s() + DEADLINE_S
    while (found := (await asyncio.to_thread(led, cluster, topic))[topic, 0]).leader != leader:
        assert now_s() < give_up_at_s, f"{topic}-0 is led by {found}, not by {leader}"
        await asyncio.sleep(_POLL_S)


async def until_in_sync(cluster: EmbeddedCluster, topic: str, *replicas: int) -> None:
    """Wait until exactly these replicas of every partition of a topic are in sync."""
    give_up_at_s = now_s() + DEADLINE_S
    while True:
        (described,) = await describe(cluster, topic)
        found = {one["partition"]: set(one["isr"]) for one in described["partitions"]}
        if all(isr == set(replicas) for isr in found.values()):
            return
        assert now_s() < give_up_at_s, f"{topic} has in sync {found}, not {replicas}"
        await asyncio.sleep(_POLL_S)
