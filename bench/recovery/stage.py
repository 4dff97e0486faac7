"""The clusters that a fault needs, and topics on them."""

import asyncio
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from aiokafka.admin import NewPartitions
from aiokafka.errors import KafkaError

from bench.admin import admin, create_topic, delete_topic, delete_topics
from bench.errors import BenchError
from bench.recovery.far.cluster import FarCluster, FarFrontedCluster
from bench.recovery.far.settings import Far
from bench.recovery.fronted import FrontedCluster
from bench.wan.distance import Carried
from deploy.local.cluster import EmbeddedCluster, start_clusters

HEAP_MIB = 512
_OVERRIDES = {
    # Delete topics of finished runs at once.
    "log.segment.delete.delay.ms": "1000",
    # No topic is created because a client asks for it.
    "auto.create.topics.enable": "false",
}
_WHOLE_S = 90.0
_DESCRIBE_S, _ANSWER_S = 90.0, 5.0
_POLL_S = 0.2


class StageKind(msgspec.Struct, frozen=True, kw_only=True):
    """How many brokers each side has, whether the mirror reaches them through proxies, and from which distance."""

    source_brokers: int = 1
    target_brokers: int = 3
    proxied: bool = False
    far: Far | None = None


class Stage:
    """A source and a target that run."""

    def __init__(self, kind: StageKind, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        folder.mkdir(parents=True)
        self.source = self._make("source", kind.source_brokers)
        self.target = self._make("target", kind.target_brokers)
        try:
            start_clusters(self.source, self.target)
            for cluster in (self.source, self.target):
                if kind.far is not None and isinstance(cluster, FarCluster | FarFrontedCluster):
                    cluster.way.begin(kind.far.rtt_ms, folder / f"way-{cluster.name}")
        except BaseException:
            self.close()
            raise

    def _make(self, name: str, brokers: int) -> EmbeddedCluster:
        make: type[EmbeddedCluster | FrontedCluster | FarCluster | FarFrontedCluster]
        if self.kind.far is not None and self.kind.far.holds(name):
            make = FarFrontedCluster if self.kind.proxied else FarCluster
        else:
            make = FrontedCluster if self.kind.proxied else EmbeddedCluster
        return make(name, self.folder / name, brokers=brokers, overrides=_OVERRIDES, heap_mib=HEAP_MIB)

    def mirror_address(self, cluster: EmbeddedCluster) -> str:
        """Return the addresses of a side for the mirror: of what stands before the brokers, if anything does."""
        if isinstance(cluster, FrontedCluster | FarCluster):
            return cluster.mirror_servers
        return cluster.bootstrap_servers

    def carried(self) -> dict[str, Carried]:
        """Return the counters of each distance. Raises BenchError if its proxy has ended."""
        sides = [one for one in (self.source, self.target) if isinstance(one, FarCluster | FarFrontedCluster)]
        return {one.name: one.way.read() for one in sides}

    def is_whole(self) -> bool:
        """Whether every broker runs."""
        return all(broker.pid is not None for cluster in (self.source, self.target) for broker in cluster.brokers)

    def create(self, topic: str, partitions: int, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic on the source, on every broker of it. Raises BenchError."""
        replicas = min(3, self.kind.source_brokers)
        asyncio.run(create_topic(self.source.bootstrap_servers, topic, partitions, configs, replicas=replicas))

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions to a topic of the source."""
        asyncio.run(_grow(self.source, topic, partitions))

    def delete(self, topic: str) -> None:
        """Delete a topic of the source."""
        asyncio.run(delete_topic(self.source.bootstrap_servers, topic))

    def clean(self, containing: str) -> None:
        """Delete topics of a finished run, on both sides."""
        for cluster in (self.source, self.target):
            asyncio.run(delete_topics(cluster.bootstrap_servers, containing=containing))

    def set_config(self, cluster: EmbeddedCluster, topic: str, config: str) -> None:
        """Set one config of a topic and leave its others. Raises ClusterError."""
        servers = ("--bootstrap-server", cluster.bootstrap_servers)
        cluster.tool("kafka.admin.ConfigCommand", *servers, "--alter", "--topic", topic, "--add-config", config)

    def wait_in_sync(self, cluster: EmbeddedCluster) -> None:
        """Wait until every replica of every partition is in sync. Raises BenchError."""
        give_up_at = time.monotonic() + _WHOLE_S
        while True:
            behind = asyncio.run(_behind(cluster))
            if not behind:
                return
            if time.monotonic() > give_up_at:
                raise BenchError("stage", f"{cluster.name}: out of sync after {_WHOLE_S:.0f} s: {sorted(behind)[:5]}")
            time.sleep(_POLL_S)

    def close(self) -> None:
        """Stop everything and remove the data."""
        self.source.stop()
        self.target.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


async def describe(cluster: EmbeddedCluster, *topics: str) -> list[dict[str, Any]]:
    """Describe topics (all without names): `error_code`, `topic`, `partitions` with leader, replicas, isr.

    Raises BenchError if no broker answers for half a minute: the client may ask an unreachable one.
    """
    give_up_at = time.monotonic() + _DESCRIBE_S
    while True:
        try:
            async with asyncio.timeout(_ANSWER_S), admin(cluster.bootstrap_servers) as client:
                return list(await client.describe_topics(list(topics) or None))
        except (KafkaError, TimeoutError) as error:
            if time.monotonic() > give_up_at:
                raise BenchError("stage", f"{cluster.name}: topics not described: {error!r}") from error
            await asyncio.sleep(_POLL_S)


async def _grow(cluster: EmbeddedCluster, topic: str, partitions: int) -> None:
    async with admin(cluster.bootstrap_servers) as client:
        answer = await client.create_partitions({topic: NewPartitions(partitions)})
    for name, code, *rest in answer.topic_errors:
        if code:
            raise BenchError("stage", f"partitions of {name} not added: error {code} {rest}")


async def _behind(cluster: EmbeddedCluster) -> set[str]:
    found = set()
    for topic in await describe(cluster):
        for one in topic["partitions"]:
            if set(one["isr"]) != set(one["replicas"]) or one["leader"] < 0:
                found.add(f"{topic['topic']}-{one['partition']}")
    return found
