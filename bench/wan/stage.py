"""The two clusters of a group of cases, with their backlogs: every broker can be reached directly and over a distance.

A broker's second listener advertises the port of a proxy, so that a client which connects through a proxy is sent to
proxies for every other broker too. The brokers keep running; a proxy runs for the time of one run.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from aiokafka import AIOKafkaProducer

from bench.admin import create_topic, delete_topics
from bench.dataset import LZ4, Backlog, fill, produce
from bench.fronted_broker import FrontedBroker
from bench.wan.cases import Case
from bench.wan.distance import DistanceProxy, FarPort
from deploy.local.cluster import EmbeddedCluster, start_clusters
from deploy.local.ports import HOST, pick_ports

IDLE_TOPIC = "wan-idle"
_WARM_UP_MIB = 64
_HEAP_MIB = 1024


class WanCluster(EmbeddedCluster):
    """A cluster whose brokers also have a listener behind a distance."""

    def __init__(self, name: str, folder: Path, *, brokers: int, overrides: Mapping[str, str]) -> None:
        super().__init__(name, folder, brokers=brokers, overrides=overrides, heap_mib=_HEAP_MIB)
        self._far = [FarPort(port) for port in pick_ports(brokers)]
        addresses = [broker.address for broker in self.brokers]
        self.brokers = [
            FrontedBroker(broker.address, addresses, broker.folder, self.cluster_id, far)
            for broker, far in zip(self.brokers, self._far, strict=True)
        ]

    @property
    def far_bootstrap_servers(self) -> str:
        """Addresses for a client at a distance; they answer while a proxy runs."""
        return ",".join(f"{HOST}:{far.port}" for far in self._far)

    @property
    def far_ports(self) -> dict[int, int]:
        """Of each proxy's port, the port of the broker's listener behind it."""
        return {far.port: far.target[1] for far in self._far}


class Stage:
    """The clusters of one group of cases: one source broker, as many target brokers as replicas."""

    def __init__(self, cases: list[Case], folder: Path, program: Path) -> None:
        self._cases, self._folder, self._program = cases, folder, program
        folder.mkdir()
        # Kafka keeps deleted logs for a minute; the copies of many runs would fill the disk.
        overrides = {"log.segment.delete.delay.ms": "1000", "auto.create.topics.enable": "false"}
        if not cases[0].is_windowed:
            # Without a window the network is the limit that is measured, so no buffer may be.
            overrides |= {"socket.send.buffer.bytes": "-1", "socket.receive.buffer.bytes": "-1"}
        self.source = WanCluster("source", folder / "source", brokers=1, overrides=overrides)
        self.target = WanCluster("target", folder / "target", brokers=cases[0].replicas, overrides=overrides)
        self._backlogs: dict[int, Backlog] = {}

    def start(self, mib: int) -> None:
        """Start the brokers and fill the topics that the cases need. Raises BenchError, ClusterError."""
        start_clusters(self.source, self.target)
        # A new broker appends at a fraction of its speed until Java has compiled the code for a batch.
        target = self.target.bootstrap_servers
        asyncio.run(create_topic(target, "warm-up", 1, replicas=len(self.target.brokers)))
        produce(self.target, LZ4, "warm-up", mib=_WARM_UP_MIB, folder=self._folder)
        for partitions in sorted({case.partitions for case in self._cases}):
            self._backlogs[partitions] = self._fill(f"wan-{partitions}", partitions, mib)
        if idle := max(case.idle_partitions for case in self._cases):
            asyncio.run(_fill_idle(self.source, idle))

    def backlog(self, case: Case) -> Backlog:
        """Return what a system has to copy in a case."""
        return self._backlogs[case.partitions]

    def addresses(self, case: Case) -> tuple[str, str]:
        """Return the bootstrap servers of source and target for the system that is measured."""
        if case.far == "source":
            return self.source.far_bootstrap_servers, self.target.bootstrap_servers
        return self.source.bootstrap_servers, self.target.far_bootstrap_servers

    def proxy(self, case: Case, rtt_ms: float, system: str) -> DistanceProxy:
        """Return the proxy between a system and the far side of a case."""
        far = self.source if case.far == "source" else self.target
        return DistanceProxy(self._program, case.distance(rtt_ms, system), far.far_ports)

    def clean(self, alias: str) -> None:
        """Delete the topics of a finished run, internal ones too: the next system finds what this one found."""
        asyncio.run(delete_topics(self.target.bootstrap_servers, containing=alias))

    def stop(self) -> None:
        """Stop both clusters."""
        self.source.stop()
        self.target.stop()

    def _fill(self, topic: str, partitions: int, mib: int) -> Backlog:
        asyncio.run(create_topic(self.source.bootstrap_servers, topic, partitions))
        backlog = fill(self.source, LZ4, topic, partitions=partitions, mib=mib, folder=self._folder)
        print(f"filled {topic}: {backlog.records:,} records, {backlog.wire_bytes / 2**20:,.0f} MiB", flush=True)
        return backlog


async def _fill_idle(source: WanCluster, partitions: int) -> None:
    """Create the idle topic and write one record to each of its partitions."""
    await create_topic(source.bootstrap_servers, IDLE_TOPIC, partitions)
    async with AIOKafkaProducer(bootstrap_servers=source.bootstrap_servers) as producer:
        for partition in range(partitions):
            await producer.send_and_wait(IDLE_TOPIC, b"x" * 100, partition=partition)
