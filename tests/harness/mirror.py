"""One flow between two embedded clusters, run in this process as often as a test needs."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from deploy.local.cluster import EmbeddedCluster
from engine.base.clock import now_s
from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.config.security import HandshakeOptions
from engine.core.events.events import AnyEvent
from engine.core.offset_map.map_blocks import map_topic
from engine.core.reports.progress import FlowProgress, LaneProgress
from engine.flow.ports.options import FlowOptions
from engine.flow.replication.copier import FlowCopier
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.gateway import KafkaCluster
from policies.model import FlowName, LaneName, PartitionSet, TopicPartition
from policies.start import Earliest, Start
from tests.harness.admin import create_topics

E = TypeVar("E")
DEADLINE_S = 180.0
_POLL_S = 0.01
_EARLIEST, _LATEST = -2, -1


def lanes_of(topic: str, copied: str, partitions: int) -> tuple[LaneName, ...]:
    """Name the lanes of one topic."""
    return tuple(LaneName(TopicPartition(topic, n), TopicPartition(copied, n)) for n in range(partitions))


def cluster_client(alias: str, servers: str) -> ClusterClient:
    """Make the engine's client for "host:port,host:port"."""
    bootstrap = [(host, int(port)) for host, port in (server.rsplit(":", 1) for server in servers.split(","))]
    return ClusterClient(alias, bootstrap, HandshakeOptions(client_id=f"test-{alias}", timeout_s=5.0))


class Run:
    """A copier at work: everything it has said so far, and ways to wait for what it should do."""

    def __init__(self, copier: FlowCopier, source: KafkaCluster) -> None:
        self.copier = copier
        self.events: list[AnyEvent] = []
        self.task: asyncio.Task[None] | None = None
        self._source = source

    def progress(self) -> FlowProgress:
        """Take a snapshot and keep its events; raises what the copier raised."""
        if self.task is not None and self.task.done():
            self.task.result()
        found = self.copier.progress()
        self.events += found.events
        return found

    def lane(self, topic: str, partition: int = 0) -> LaneProgress:
        """Return the progress of one lane."""
        return next(one for one in self.progress().lanes if one.lane == (topic, partition))

    def told(self, kind: type[E], topic: str | None = None) -> list[E]:
        """Return the events of one kind, of one topic."""
        self.progress()
        found = [event for event in self.events if isinstance(event, kind)]
        return [one for one in found if topic is None or getattr(one, "lane")[0] == topic]  # noqa: B009

    async def until(self, holds: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> None:
        """Wait until a condition holds; fails with the state of every lane."""
        give_up_at = now_s() + deadline_s
        while not holds():
            if now_s() > give_up_at:
                raise AssertionError(f"not within {deadline_s:.0f} s: {what}\n{self.describe()}")
            self.progress()
            await asyncio.sleep(_POLL_S)

    async def until_told(self, kind: type[E], topic: str | None = None, deadline_s: float = DEADLINE_S) -> E:
        """Wait for an event and return the first of its kind."""
        await self.until(lambda: self.told(kind, topic), f"event {kind.__name__} of {topic}", deadline_s)
        return self.told(kind, topic)[0]

    async def until_copied(self, *topics: str, deadline_s: float = DEADLINE_S) -> None:
        """Wait until the lanes (of some topics, else all) have copied what the source holds now."""
        names = [d.name.source for d in self.copier.drivers.values() if not topics or d.name.source.topic in topics]
        ends = await self._ends(names, now_s() + deadline_s)

        def copied() -> bool:
            lanes = {one.lane: one for one in self.progress().lanes}
            return all(lanes[name].state == "copying" and lanes[name].source_next >= ends[name] for name in names)

        await self.until(copied, f"copied to {dict(list(ends.items())[:5])}", deadline_s)

    async def _ends(self, names: list[TopicPartition], give_up_at: float) -> dict[TopicPartition, int]:
        """Ask where the source ends; a broker that is on its way back does not say it at once."""
        while True:
            try:
                return await self._source.offsets(names, _LATEST)
            except (ConnectionLost, BrokerUnreachable):
                if now_s() > give_up_at:
                    raise
                await asyncio.sleep(_POLL_S)

    def describe(self) -> str:
        """Say where every lane stands, troubled ones first, and what was told."""
        lanes = sorted(self.progress().lanes, key=lambda one: one.source_next >= one.source_end)
        rows = [f"  {one.lane} {one.state} {one.source_next}/{one.source_end} {one.reason}" for one in lanes[:12]]
        return "\n".join([*rows, *(f"  {event.text()}" for event in self.events[-12:])])


class Mirror:
    """A flow with its topics; `run` starts a copier at the next assignment epoch."""

    def __init__(
        self,
        source: EmbeddedCluster,
        target: EmbeddedCluster,
        alias: str,
        *,
        start: Callable[[str], Start] = lambda _topic: Earliest(),
        **options: Any,
    ) -> None:
        self.source, self.target = source, target
        self.flow = FlowName(alias, "b")
        self.positions_topic = options.pop("positions_topic", f"mm2-offsets.{alias}.internal")
        self.map_topic = map_topic(alias)
        self.start = start
        self.epoch = 0
        self.lanes: tuple[LaneName, ...] = ()
        self.target_servers = target.bootstrap_servers
        self.source_servers = source.bootstrap_servers
        self.source_port: Callable[[ClusterClient], KafkaCluster] = KafkaCluster
        self.target_port: type[KafkaCluster] = KafkaCluster
        self.source_client: Callable[[str, str], ClusterClient] = cluster_client
        quick = {"held_after_s": 0.2, "refused_retry_s": 0.2, "takeover_wait_s": 1.0, "positions_partitions": 2}
        self.options = FlowOptions(
            flow=self.flow, deployment_id="test", positions_topic=self.positions_topic, **{**quick, **options}
        )

    async def open(self) -> None:
        """Create the positions topic and the map topic."""
        replicas = min(3, len(self.target.brokers))
        partitions = dict.fromkeys((self.positions_topic, self.map_topic), self.options.positions_partitions)
        await create_topics(self.target, partitions, replicas=replicas, configs={"cleanup.policy": "compact"})

    def copied(self, topic: str) -> str:
        """Name a topic's copy."""
        return f"{self.flow.source}.{topic}"

    async def topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        on_source: Mapping[str, str] | None = None,
        on_target: Mapping[str, str] | None = None,
    ) -> str:
        """Create a topic on both sides and add its lanes; return the name of the copy."""
        for cluster, topic, configs in (
            (self.source, name, on_source),
            (self.target, self.copied(name), on_target),
        ):
            replicas = min(3, len(cluster.brokers))
            await create_topics(cluster, {topic: partitions}, replicas=replicas, configs=configs)
        self.lanes += lanes_of(name, self.copied(name), partitions)
        return self.copied(name)

    async def topic_on_source(self, name: str, partitions: int) -> None:
        """Create a topic on the source only: its copy is somebody else's to create."""
        await create_topics(self.source, {name: partitions}, replicas=min(3, len(self.source.brokers)))

    @asynccontextmanager
    async def asking_target(self) -> AsyncIterator[KafkaCluster]:
        """Ask the target something."""
        client = cluster_client(self.flow.target, self.target_servers)
        await client.open()
        try:
            yield KafkaCluster(client)
        finally:
            await client.close()

    @asynccontextmanager
    async def asking_source(self) -> AsyncIterator[KafkaCluster]:
        """Ask the source something."""
        client = cluster_client(self.flow.source, self.source_servers)
        await client.open()
        try:
            yield KafkaCluster(client)
        finally:
            await client.close()

    @asynccontextmanager
    async def run(self, *, epoch: int | None = None, drain: bool = True) -> AsyncIterator[Run]:
        """Run a copier; it is drained at the end, or with `drain=False` just cut off."""
        self.epoch = epoch if epoch is not None else self.epoch + 1
        source_client = self.source_client(self.flow.source, self.source_servers)
        clients = source_client, cluster_client("b", self.target_servers)
        for client in clients:
            await client.open()
        source, target = self.source_port(clients[0]), self.target_port(clients[1])
        copier = FlowCopier(self.options, source, target, self.start)
        copier.assign(PartitionSet(set_id=f"{self.flow}/000", flow=self.flow, epoch=self.epoch, lanes=self.lanes))
        run = Run(copier, source)
        run.task = asyncio.create_task(copier.run())
        try:
            yield run
            if drain:
                await copier.drain()
                await run.task
                run.progress()
        finally:
            run.task.cancel()
            await asyncio.wait([run.task])
            for client in clients:
                await client.close()
