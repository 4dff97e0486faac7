"""Creates, grows and compares the copies of one flow's topics in rounds of discovery.

    topics without a copy -> create, many in a request -> copies with too few partitions -> grow -> compare new copies

What exists is copied while the target's controller gives no answer. So that does not fail a round: it ends the changes
of this round, and the other ones wait for the next.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from engine.base.clock import now_s
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.config.settings import FlowConfig
from engine.core.events.config_events import ConfigUnknown
from engine.core.events.events import TopicCreated, TopicWarning
from engine.kafka.admin.admin import grow_topic
from engine.kafka.admin.hidden_topics import refused_by
from engine.kafka.admin.unknown_configs import UnknownConfigs
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.metadata import Metadata
from engine.kafka.discovery.asked_copies import AskedCopies
from engine.kafka.discovery.copy_checks import check_copies
from engine.kafka.discovery.discovery_events import DiscoveryEvents
from engine.kafka.discovery.new_copies import create_copies
from engine.kafka.discovery.request_parts import in_requests
from engine.kafka.protocol.faults import (
    CONTROLLER_RETRY,
    INVALID_CONFIG,
    INVALID_PARTITIONS,
    REQUEST_TIMED_OUT,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from policies.sync.acl_sync import Operation
from policies.sync.creation import Grow, plan_topic

_CREATE_S = 20.0
"""Seconds that one round may take to create copies, and a request more."""
_HELD_ROUNDS = 3
"""Rounds in a row without an answer about changes before an event says so: a controller's move takes one or two."""
_RIGHT_CONFIG = "make the cluster accept the source topic's value, or add the config to config.properties.exclude"


class _HeldChange(msgspec.Struct, frozen=True):
    """A change of a topic that the target's controller gave no answer to, and why."""

    topic: str
    why: str


class Copies:
    """Adapts the copies to the source's topics; one failed topic does not stop the others.

    `moved` returns the source topics whose producers write to the copies now: these copies do not grow.
    """

    def __init__(
        self,
        flow: FlowConfig,
        source: ClusterClient,
        target: ClusterClient,
        events: DiscoveryEvents,
        moved: Callable[[], Collection[str]],
    ) -> None:
        self._flow, self._source, self._target, self._events, self._moved = flow, source, target, events, moved
        self._asked = AskedCopies()
        self._unknown = UnknownConfigs()
        self._held: _HeldChange | None = None
        """Behind such a change, the other ones of a round wait for the next round."""
        self._held_rounds = 0
        self._created_up_to = ""
        """The last topic that a round asked to create before it stopped: the next one begins behind it."""
        self._compared: set[str] = set()
        self._new: set[str] = set()
        """Topics of this round that are ready, and were never compared with their copies."""

    async def prepare(
        self, topics: Sequence[str], source: Metadata, target: Metadata, last: Mapping[str, int]
    ) -> dict[str, int]:
        """Prepare the copies of topics; return how many partitions of each can be copied; `last`: in the last round."""
        self._new.clear()  # of a round that failed, perhaps with topics that the source does not have any more
        self._held = None
        self._compared.intersection_update(topics)
        refused = {topic: refused_by(self._target, target, self._remote(topic), Operation.WRITE) for topic in topics}
        present = {topic: self._present(topic, target) for topic in topics if refused[topic] is None}
        created = await self._create([topic for topic, count in present.items() if not count], source)
        ready: dict[str, int] = {}
        for topic in topics:
            partitions = len(source.topics[topic].partitions)
            refusal, count = refused[topic], present.get(topic, 0)
            if refusal is not None:  # the lanes stay: they wait for the right, too
                self._events.fail(topic, str(refusal))
                count = last.get(topic, 0)
            elif not count:
                count = min(created[topic], partitions)
            else:
                count = min(await self._grown(topic, partitions, count), partitions)
            ready[topic] = count
        self._report_held()
        await self._compare_new(source)
        return ready

    def _remote(self, topic: str) -> str:
        return self._flow.naming.remote_topic(self._flow.name.source, topic)

    def _present(self, topic: str, target: Metadata) -> int:
        """Return how many partitions the copy of a topic has; 0 if the broker that was asked does not know it."""
        meta = target.topics.get(self._remote(topic))
        if meta is None or not meta.partitions:
            return 0
        count = len(meta.partitions)
        if self._asked.listed(topic):
            self._changed(topic, count, 0)
        return count

    # --- creating --------------------------------------------------------------------------------------------

    async def _create(self, topics: Sequence[str], source: Metadata) -> dict[str, int]:
        """Create copies; return how many partitions each has, 0 if it could not be created.

        A request without an answer ends the requests of this round: each of hundreds may cost a time-out. They end
        after some seconds too: what was created is copied, while the next rounds create the rest.
        """
        until_s = now_s() + _CREATE_S
        partitions = {topic: len(source.topics[topic].partitions) for topic in self._asked.due(topics)}
        # A request that is always lost, or refused, delays no other.
        for part in sorted(in_requests(partitions), key=lambda part: part[0] <= self._created_up_to):
            try:
                made = await create_copies(self._source, self._target, self._flow, part, partitions, self._unknown)
            except (BrokerUnreachable, ConnectionLost) as lost:
                if isinstance(lost, ConnectionLost):
                    self._asked.unanswered(part)
                self._held = _HeldChange(part[0], f"raymirror cannot create its copy ({lost})")
            else:
                for topic in part:
                    self._created(topic, partitions[topic], made.get(topic))
            if self._held is not None or now_s() >= until_s:
                self._created_up_to = part[-1]
                break
        self._report_unknown()
        return {topic: self._asked.partitions(topic) for topic in topics}

    def _created(self, topic: str, partitions: int, made: bool | KafkaRefusal | None) -> None:
        if isinstance(made, KafkaRefusal):
            if made.code == REQUEST_TIMED_OUT:
                self._asked.unanswered([topic])
            elif made.code not in (*CONTROLLER_RETRY, UNKNOWN_TOPIC_OR_PARTITION):
                self._asked.refused(topic)
            self._refused(topic, made)
        elif made:
            self._asked.made(topic, partitions)
            self._changed(topic, partitions, 0)
            self._is_ready(topic)
        elif made is not None:  # made by another, or before a time-out: a later round sees its partitions
            if self._asked.exists(topic):
                self._events.fail(topic, self._unlisted(topic))
            else:
                self._is_ready(topic)

    def _report_unknown(self) -> None:
        """Report each config that the target does not know, once."""
        for name, copy in sorted(self._unknown.take_new().items()):
            self._events.add(ConfigUnknown(flow=self._flow.name, name=name, target=copy))

    def _unlisted(self, topic: str) -> str:
        return (
            f"cluster {self._target.alias!r} says that topic {self._remote(topic)} exists, but no broker lists it:"
            " perhaps its deletion waits for a broker that is away; raymirror creates it as soon as it is deleted"
        )

    # --- growing ---------------------------------------------------------------------------------------------

    async def _grown(self, topic: str, partitions: int, present: int) -> int:
        """Give a copy the partitions that it lacks; return how many it has."""
        if isinstance(plan_topic(partitions, present, self._flow.replication_factor, {}), Grow):
            if self._held is not None or topic in self._moved():
                return present
            try:
                await grow_topic(self._target, self._remote(topic), partitions, waits=False)
            except (BrokerUnreachable, ConnectionLost) as lost:
                self._held = _HeldChange(topic, f"raymirror cannot add partitions to its copy ({lost})")
                return present  # what is there can be copied
            except KafkaRefusal as refusal:
                if refusal.code != INVALID_PARTITIONS:
                    self._refused(topic, refusal)
                    return present
                # it has as many (ReplicationControlManager), and not every broker knows it yet
            else:
                self._changed(topic, partitions, present)
            present = partitions
        self._is_ready(topic)
        return present

    # --- what a change led to --------------------------------------------------------------------------------

    def _refused(self, topic: str, refusal: KafkaRefusal) -> None:
        if refusal.code in CONTROLLER_RETRY:
            self._held = self._held or _HeldChange(topic, str(refusal))
        elif refusal.code == INVALID_CONFIG:
            self._events.fail(topic, f"{refusal}; {_RIGHT_CONFIG}")
        elif refusal.code != UNKNOWN_TOPIC_OR_PARTITION:  # just created, or gone: a later round sees it
            self._events.fail(topic, str(refusal))

    def _report_held(self) -> None:
        """Report that changes of topics wait, once, in the third such round in a row."""
        self._held_rounds = 0 if self._held is None else self._held_rounds + 1
        if self._held is not None and self._held_rounds == _HELD_ROUNDS:
            self._events.fail(self._held.topic, f"{self._held.why}; changes of other topics wait too")

    def _changed(self, topic: str, partitions: int, before: int) -> None:
        if not before:
            self._compared.discard(topic)
        remote = self._remote(topic)
        self._events.add(
            TopicCreated(flow=self._flow.name, topic=topic, target=remote, partitions=partitions, before=before)
        )

    def _is_ready(self, topic: str) -> None:
        if topic in self._compared:
            self._events.passed(topic)
        else:
            self._new.add(topic)

    async def _compare_new(self, source: Metadata) -> None:
        """Compare copies that are ready for the first time; what cannot be asked now is asked in the next round."""
        copies = {topic: self._remote(topic) for topic in self._new}
        found = await check_copies(self._source, self._target, copies, source)
        for topic, refusal in found.refused.items():
            self._events.fail(topic, refusal)
        for topic, differences in found.differences.items():
            self._compared.add(topic)
            self._events.passed(topic)
            self._events.add(*(TopicWarning(flow=self._flow.name, topic=topic, what=what) for what in differences))
