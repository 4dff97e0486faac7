"""Implements discovery: finds the topics that a flow copies, and has their copies created or grown on the target."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.config.settings import FlowConfig
from engine.core.position.position import Position, decode_value
from engine.flow.ports.discovery import Discovery
from engine.kafka.admin.flow_clusters import check_clusters
from engine.kafka.admin.hidden_topics import hidden_topics
from engine.kafka.admin.sameness import refuse_one_cluster, within_one_cluster
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.metadata import Metadata
from engine.kafka.data.positions import read_positions
from engine.kafka.discovery.copies import Copies
from engine.kafka.discovery.discovery_events import DiscoveryEvents
from engine.kafka.discovery.own_topics import OwnTopics
from engine.kafka.discovery.renewal import Renewals
from policies.model import LaneName, TopicPartition
from policies.patterns import literal
from policies.shared_clusters import feeds_itself


class Topics:
    """Adapts the target topics of one flow to the source's, in rounds."""

    def __init__(self, flow: FlowConfig, source: ClusterClient, target: ClusterClient) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._knows_clusters = False
        self._within_one = False
        """Whether both aliases lead to one cluster; the flow allows it then."""
        self._highest: int | None = None
        self._literals = frozenset(filter(None, map(literal, flow.topics)))
        """The topics that the configuration names: they are missed if the source hides them."""
        self._ready: dict[str, int] = {}
        """Partitions that were copied in the last round, by topic: they stay while a right is missing."""
        self._events = DiscoveryEvents(flow.name)
        self._own = OwnTopics(flow, source, target, self._events)
        self._copies = Copies(flow, source, target, self._events, lambda: self.moved())
        self._renewals = Renewals(flow, source, target)
        self.may_delete: Callable[[], bool] = lambda: False
        """Whether raymirror may delete copies now if the settings ask for it: only while this mirror owns the flow."""
        self.moved: Callable[[], Collection[str]] = frozenset
        """Source topics whose producers write to the copies now: the source says nothing about these any more."""

    async def open(self) -> None:
        """Connect to both clusters. Raises BrokerUnreachable, OtherCluster."""
        self._knows_clusters = False
        await self._source.open()
        await self._target.open()

    async def close(self) -> None:
        """Disconnect."""
        await self._source.close()
        await self._target.close()

    async def step(self) -> Discovery:
        """Run one round.

        Raises ConnectionLost, BrokerUnreachable; OtherCluster if a cluster is not the one that positions name,
        SameCluster if both are one; KafkaRefusal if the positions topic or the map topic does not fit.
        """
        if not self._knows_clusters:
            self._within_one = await refuse_one_cluster(self._flow, self._source, self._target)
            self._knows_clusters = await check_clusters(self._flow, self._source, self._target)
        own = await self._own.ensure_needed()
        source = await self._source.metadata(None)
        self._within_one |= within_one_cluster(self._flow, source, own)
        await self._own.ensure_syncs()
        await self._own.ensure_quarantine()
        topics = sorted(topic for topic, meta in source.topics.items() if not meta.is_internal and self._wants(topic))
        hidden = await hidden_topics(self._source, filter(self._wants, self._literals | self._ready.keys()), source)
        target = await self._target.metadata([self._remote(topic) for topic in topics])
        await self._check_renewals(topics, source, target)
        ready = await self._copies.prepare(topics, source, target, self._ready)
        for topic, refusal in hidden.items():
            self._events.fail(topic, str(refusal))
            ready[topic] = self._ready.get(topic, 0)
        lanes = [lane for topic, partitions in sorted(ready.items()) for lane in self._lanes(topic, partitions)]
        self._ready = ready
        highest = self._highest
        if highest is None:  # the caller assigns later epochs, so it knows them
            highest = await self._highest_epoch()
        target_id = self._target.identity.id
        return Discovery(lanes=tuple(lanes), events=self._events.take(), highest_epoch=highest, target_id=target_id)

    async def _check_renewals(self, topics: Sequence[str], source: Metadata, target: Metadata) -> None:
        """Delete copies of previous topics, but none that applications write to themselves now."""
        moved = self.moved()
        copies = {topic: self._remote(topic) for topic in topics if topic not in moved}
        with suppress(BrokerUnreachable, ConnectionLost):  # a partial answer deletes nothing
            self._events.add(*await self._renewals.check(copies, source, target, may_delete=self.may_delete()))

    def forget_epochs(self) -> None:
        """Read in the next round which epochs were used: the caller is new and has not assigned them."""
        self._highest = None

    def _wants(self, topic: str) -> bool:
        """Whether the flow copies a topic; within one cluster it leaves out what would be copied again and again."""
        selection = self._flow.selection
        if not selection.wants(topic):
            return False
        if not (self._within_one and feeds_itself(selection, topic)):
            return True
        if not self._events.has_failed(topic):
            what = f"left out: within one cluster, its copy {self._remote(topic)} would be copied too, and so on"
            self._events.fail(topic, what)
        return False

    def _remote(self, topic: str) -> str:
        return self._flow.naming.remote_topic(self._flow.name.source, topic)

    def _lanes(self, topic: str, partitions: int) -> list[LaneName]:
        remote = self._remote(topic)
        return [LaneName(TopicPartition(topic, p), TopicPartition(remote, p)) for p in range(partitions)]

    async def _highest_epoch(self) -> int:
        """Return the highest assignment epoch written, so that the next one is above it.

        If brokers that lead positions are unreachable, the other positions count until the next round: a lane whose
        position cannot be read is not acquired. Raises as `step` does if no position can be read.
        """
        highest = 0
        read = await read_positions(self._target, self._flow.positions_topic)
        for key, value in read.records:
            if self._flow.position_keys.decode(key) is None:
                continue
            try:
                position = decode_value(value)
            except ValueError:
                continue  # the lane of this position reports the error
            if isinstance(position, Position):
                highest = max(highest, position.assignment_epoch)
        if read.complete:
            self._highest = highest
        return highest
