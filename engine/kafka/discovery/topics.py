"""Implements discovery: finds the topics that a flow copies, and creates or grows their copies on the target."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from uuid import UUID

import msgspec

from engine.base.clock import now_s
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.config.settings import FlowConfig
from engine.core.events.events import AnyEvent, Mm2TopicFailed, TopicCreated, TopicFailed, TopicWarning
from engine.core.offset_map.map_blocks import map_topic
from engine.core.position.position import Position, decode_value
from engine.core.refused.entries import quarantine_topic
from engine.flow.ports.discovery import Discovery
from engine.kafka.admin.admin import create_topic, grow_topic
from engine.kafka.admin.flow_clusters import check_clusters
from engine.kafka.admin.hidden_topics import hidden_topics, refused_by
from engine.kafka.admin.internal_topics import (
    MAP_CONFIGS,
    POSITIONS_CONFIGS,
    POSITIONS_KEY,
    SYNCS_KEY,
    check_partitions,
    check_policy,
    ensure_mm2_topic,
    ensure_quarantine_topic,
    how_to_recreate,
)
from engine.kafka.admin.sameness import refuse_one_cluster, within_one_cluster
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.metadata import Metadata
from engine.kafka.data.positions import read_positions
from engine.kafka.discovery.asked_copies import AskedCopies
from engine.kafka.discovery.copy_checks import check_copies
from engine.kafka.discovery.new_copies import create_copies
from engine.kafka.discovery.renewal import Renewals
from engine.kafka.discovery.request_parts import in_requests
from engine.kafka.protocol.faults import (
    CONTROLLER_RETRY,
    INVALID_PARTITIONS,
    REQUEST_TIMED_OUT,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from policies.model import LaneName, TopicPartition
from policies.patterns import literal
from policies.shared_clusters import feeds_itself
from policies.sync.acl_sync import Operation
from policies.sync.creation import Grow, plan_topic

_CREATE_S = 20.0
"""Seconds that one round may take to create copies, and a request more."""
_HELD_ROUNDS = 3
"""Rounds in a row without an answer about changes before an event says so: a controller's move takes one or two."""


class _HeldChange(msgspec.Struct, frozen=True):
    """A change of a topic that the target's controller gave no answer to, and why."""

    topic: str
    why: str


class Topics:
    """Adapts the target topics of one flow to the source's; one failed topic does not stop the others."""

    def __init__(self, flow: FlowConfig, source: ClusterClient, target: ClusterClient) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._knows_clusters = False
        self._within_one = False
        """Whether both aliases lead to one cluster; the flow allows it then."""
        self._highest: int | None = None
        self._checked: dict[str, UUID] = {}
        self._compared: set[str] = set()
        self._new: set[str] = set()
        """Topics of this round that are ready, and were never compared with their copies."""
        self._failed: dict[str, str] = {}
        self._asked = AskedCopies()
        self._held: _HeldChange | None = None
        """Behind such a change, the other ones of a round wait for the next round."""
        self._created_up_to = ""
        """The last topic that a round asked to create before it stopped: the next one begins behind it."""
        self._held_rounds = 0
        self._literals = frozenset(filter(None, map(literal, flow.topics)))
        """The topics that the configuration names: they are missed if the source hides them."""
        self._ready: dict[str, int] = {}
        """Partitions that were copied in the last round, by topic: they stay while a right is missing."""
        self._untold: list[AnyEvent] = []
        """Events of failed rounds; the next successful round returns them."""
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
        own = await self._ensure_own_topics()
        source = await self._source.metadata(None)
        self._within_one |= within_one_cluster(self._flow, source, own)
        await self._ensure_syncs_topic()
        await self._ensure_quarantine_topic()
        topics = sorted(topic for topic, meta in source.topics.items() if not meta.is_internal and self._wants(topic))
        hidden = await hidden_topics(self._source, filter(self._wants, self._literals | self._ready.keys()), source)
        target = await self._target.metadata([self._remote(topic) for topic in topics])
        events = self._untold
        await self._check_renewals(topics, source, target, events)
        lanes: list[LaneName] = []
        ready = await self._ready_topics(topics, source, target, events)
        for topic, refusal in hidden.items():
            self._fail(topic, str(refusal), events)
            ready[topic] = self._ready.get(topic, 0)
        for topic, partitions in sorted(ready.items()):
            lanes += self._lanes(topic, partitions)
        self._ready = ready
        highest = self._highest
        if highest is None:  # the caller assigns later epochs, so it knows them
            highest = await self._highest_epoch()
        self._untold = []
        target_id = self._target.identity.id
        return Discovery(lanes=tuple(lanes), events=tuple(events), highest_epoch=highest, target_id=target_id)

    async def _check_renewals(
        self, topics: Sequence[str], source: Metadata, target: Metadata, events: list[AnyEvent]
    ) -> None:
        """Delete copies of previous topics, but none that applications write to themselves now."""
        moved = self.moved()
        copies = {topic: self._remote(topic) for topic in topics if topic not in moved}
        with suppress(BrokerUnreachable, ConnectionLost):  # a partial answer deletes nothing
            events += await self._renewals.check(copies, source, target, may_delete=self.may_delete())

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
        if topic not in self._failed:
            what = f"left out: within one cluster, its copy {self._remote(topic)} would be copied too, and so on"
            self._failed[topic] = what
            self._untold.append(TopicFailed(flow=self._flow.name, topic=topic, what=what))
        return False

    def _remote(self, topic: str) -> str:
        return self._flow.naming.remote_topic(self._flow.name.source, topic)

    def _fail(self, topic: str, what: str, events: list[AnyEvent]) -> None:
        """Report why a topic is not prepared, unless that was the last that was reported of it."""
        if self._failed.get(topic) != what:
            self._failed[topic] = what
            events.append(TopicFailed(flow=self._flow.name, topic=topic, what=what))

    def _lanes(self, topic: str, partitions: int) -> list[LaneName]:
        remote = self._remote(topic)
        return [LaneName(TopicPartition(topic, p), TopicPartition(remote, p)) for p in range(partitions)]

    async def _ensure_own_topics(self) -> Metadata:
        """Create or check the topics of positions and map; both need the same number of partitions.

        The blocks of a lane are on the partition with the number of its position's. One request per round shows whether
        the topics exist; the cleanup policy is checked once for each topic id.
        """
        flow = self._flow
        partitions, replicas = flow.positions_partitions, flow.positions_replication_factor
        positions, blocks = flow.positions_topic, map_topic(flow.name.source)
        described = await self._target.metadata([positions, blocks])
        for topic, configs in ((positions, POSITIONS_CONFIGS), (blocks, MAP_CONFIGS)):
            found = described.topics.get(topic)
            refusal = refused_by(self._target, described, topic, Operation.WRITE)
            if refusal is not None:
                raise refusal
            if found is None or not found.partitions:
                await create_topic(self._target, topic, partitions, replicas, configs, key=POSITIONS_KEY)
                continue
            there = len(found.partitions)
            as_it_is = f"set offset.storage.partitions = {there}"
            right = as_it_is if topic == positions else how_to_recreate(partitions, configs)
            check_partitions(self._target, topic, there, partitions, right)
            if self._checked.get(topic) != found.topic_id:
                await check_policy(self._target, topic, configs)
                self._checked[topic] = found.topic_id
        return described

    async def _ensure_syncs_topic(self) -> None:
        """Create the offset-syncs topic on its cluster, also after a deletion; copying does not wait for it."""
        syncs, name = self._flow.syncs, self._flow.name
        if not syncs.enabled:
            return
        client = self._source if syncs.cluster == name.source else self._target
        try:
            await ensure_mm2_topic(client, syncs.topic, syncs.replication_factor, SYNCS_KEY)
        except KafkaRefusal as refusal:
            if self._failed.get(syncs.topic) != str(refusal):
                self._failed[syncs.topic] = str(refusal)
                what = str(refusal)
                self._untold.append(Mm2TopicFailed(flow=name, topic=syncs.topic, cluster=syncs.cluster, what=what))
        else:
            self._failed.pop(syncs.topic, None)

    async def _ensure_quarantine_topic(self) -> None:
        """Create the quarantine topic if refused records are left out; without it, lanes wait at such records."""
        flow, topic = self._flow, quarantine_topic(self._flow.name.source)
        if not flow.faults.leaves_out:
            return
        try:
            await ensure_quarantine_topic(self._target, topic, flow.positions_replication_factor)
        except KafkaRefusal as refusal:
            if self._failed.get(topic) != str(refusal):
                self._failed[topic] = str(refusal)
                what = f"{refusal}; until then, partitions wait at records that the target refuses"
                self._untold.append(TopicFailed(flow=flow.name, topic=topic, what=what))
        else:
            self._failed.pop(topic, None)

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

    # --- one topic -------------------------------------------------------------------------------------------

    async def _ready_topics(
        self, topics: Sequence[str], source: Metadata, target: Metadata, events: list[AnyEvent]
    ) -> dict[str, int]:
        """Prepare the copies of topics; return how many partitions of each can be copied."""
        self._new.clear()  # of a round that failed, perhaps with topics that the source does not have any more
        self._held = None
        self._compared.intersection_update(topics)
        refused = {topic: refused_by(self._target, target, self._remote(topic), Operation.WRITE) for topic in topics}
        present = {topic: self._present(topic, target, events) for topic in topics if refused[topic] is None}
        created = await self._create([topic for topic, count in present.items() if not count], source, events)
        ready: dict[str, int] = {}
        for topic in topics:
            partitions = len(source.topics[topic].partitions)
            refusal, count = refused[topic], present.get(topic, 0)
            if refusal is not None:  # the lanes stay: they wait for the right, too
                self._fail(topic, str(refusal), events)
                count = self._ready.get(topic, 0)
            elif not count:
                count = min(created[topic], partitions)
            else:
                count = min(await self._grown(topic, partitions, count, events), partitions)
            ready[topic] = count
        self._report_held(events)
        await self._compare_new(source, events)
        return ready

    def _present(self, topic: str, target: Metadata, events: list[AnyEvent]) -> int:
        """Return how many partitions the copy of a topic has; 0 if the broker that was asked does not know it."""
        meta = target.topics.get(self._remote(topic))
        if meta is None or not meta.partitions:
            return 0
        count = len(meta.partitions)
        if self._asked.listed(topic):
            self._changed(topic, count, 0, events)
        return count

    async def _create(self, topics: Sequence[str], source: Metadata, events: list[AnyEvent]) -> dict[str, int]:
        """Create copies; return how many partitions each has, 0 if it could not be created.

        What exists is copied while the target's controller gives no answer. So that does not fail the round, and ends
        the requests of this round: each of hundreds may cost a time-out. They end after some seconds too: what was
        created is copied, while the next rounds create the rest.
        """
        until_s = now_s() + _CREATE_S
        partitions = {topic: len(source.topics[topic].partitions) for topic in self._asked.due(topics)}
        # A request that is always lost, or refused, delays no other.
        for part in sorted(in_requests(partitions), key=lambda part: part[0] <= self._created_up_to):
            try:
                made = await create_copies(self._source, self._target, self._flow, part, partitions)
            except (BrokerUnreachable, ConnectionLost) as lost:
                if isinstance(lost, ConnectionLost):
                    self._asked.unanswered(part)
                self._held = _HeldChange(part[0], f"raymirror cannot create its copy ({lost})")
            else:
                for topic in part:
                    self._created(topic, partitions[topic], made.get(topic), events)
            if self._held is not None or now_s() >= until_s:
                self._created_up_to = part[-1]
                break
        return {topic: self._asked.partitions(topic) for topic in topics}

    def _created(self, topic: str, partitions: int, made: bool | KafkaRefusal | None, events: list[AnyEvent]) -> None:
        if isinstance(made, KafkaRefusal):
            if made.code == REQUEST_TIMED_OUT:
                self._asked.unanswered([topic])
            elif made.code not in (*CONTROLLER_RETRY, UNKNOWN_TOPIC_OR_PARTITION):
                self._asked.refused(topic)
            self._refused(topic, made, events)
        elif made:
            self._asked.made(topic, partitions)
            self._changed(topic, partitions, 0, events)
            self._is_ready(topic)
        elif made is not None:  # made by another, or before a time-out: a later round sees its partitions
            if self._asked.exists(topic):
                self._fail(topic, self._unlisted(topic), events)
            else:
                self._is_ready(topic)

    def _unlisted(self, topic: str) -> str:
        return (
            f"cluster {self._target.alias!r} says that topic {self._remote(topic)} exists, but no broker lists it:"
            " perhaps its deletion waits for a broker that is away; raymirror creates it as soon as it is deleted"
        )

    async def _grown(self, topic: str, partitions: int, present: int, events: list[AnyEvent]) -> int:
        """Give a copy the partitions that it lacks; return how many it has."""
        if isinstance(plan_topic(partitions, present, self._flow.replication_factor, {}), Grow):
            if self._held is not None or topic in self.moved():
                return present
            try:
                await grow_topic(self._target, self._remote(topic), partitions, waits=False)
            except (BrokerUnreachable, ConnectionLost) as lost:
                self._held = _HeldChange(topic, f"raymirror cannot add partitions to its copy ({lost})")
                return present  # what is there can be copied
            except KafkaRefusal as refusal:
                if refusal.code != INVALID_PARTITIONS:
                    self._refused(topic, refusal, events)
                    return present
                # it has as many (ReplicationControlManager), and not every broker knows it yet
            else:
                self._changed(topic, partitions, present, events)
            present = partitions
        self._is_ready(topic)
        return present

    def _refused(self, topic: str, refusal: KafkaRefusal, events: list[AnyEvent]) -> None:
        if refusal.code in CONTROLLER_RETRY:
            self._held = self._held or _HeldChange(topic, str(refusal))
        elif refusal.code != UNKNOWN_TOPIC_OR_PARTITION:  # just created, or gone: a later round sees it
            self._fail(topic, str(refusal), events)

    def _report_held(self, events: list[AnyEvent]) -> None:
        """Report that changes of topics wait, once, in the third such round in a row."""
        self._held_rounds = 0 if self._held is None else self._held_rounds + 1
        if self._held is not None and self._held_rounds == _HELD_ROUNDS:
            self._fail(self._held.topic, f"{self._held.why}; changes of other topics wait too", events)

    def _changed(self, topic: str, partitions: int, before: int, events: list[AnyEvent]) -> None:
        if not before:
            self._compared.discard(topic)
        remote = self._remote(topic)
        events.append(
            TopicCreated(flow=self._flow.name, topic=topic, target=remote, partitions=partitions, before=before)
        )

    def _is_ready(self, topic: str) -> None:
        if topic in self._compared:
            self._failed.pop(topic, None)
        else:
            self._new.add(topic)

    async def _compare_new(self, source: Metadata, events: list[AnyEvent]) -> None:
        """Compare copies that are ready for the first time; what cannot be asked now is asked in the next round."""
        copies = {topic: self._remote(topic) for topic in self._new}
        found = await check_copies(self._source, self._target, copies, source)
        for topic, refusal in found.refused.items():
            self._fail(topic, refusal, events)
        for topic, differences in found.differences.items():
            self._compared.add(topic)
            self._failed.pop(topic, None)
            events += [TopicWarning(flow=self._flow.name, topic=topic, what=what) for what in differences]
