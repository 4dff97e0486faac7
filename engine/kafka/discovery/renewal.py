"""Deletes copies of topics that were created again on the source, if `raymirror.topic.recreated` says re-create.

The position of each lane stores the ids of the source topic and of its copy. So nothing is deleted on a guess: neither
a topic that raymirror did not write, nor a copy that was created again after its source was. Nothing is deleted because
of another cluster or an earlier state of this one either: `core/identity/cluster_ids.py` tells them apart.
"""

from collections import Counter
from collections.abc import Mapping
from uuid import UUID

import msgspec

from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.config.settings import FlowConfig
from engine.core.events.events import AnyEvent, CopyDeleted, CopyKept, TopicFailed
from engine.core.identity.cluster_ids import behind, doubt_of_ids
from engine.core.position.position import Position
from engine.flow.ownership.stored_positions import decode_positions
from engine.flow.ports.ports import LATEST
from engine.kafka.admin.admin import delete_topic_by_id
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.metadata import NO_ID, Metadata
from engine.kafka.data.logs import read_topic
from engine.kafka.data.offsets import list_offsets
from engine.kafka.protocol.requests import text_id
from policies.model import TopicPartition
from policies.sync.topic_faults import OnRenewal

_UNSURE_ROUNDS = 3
"""Rounds in a row without certainty before an event says so: brokers learn of a new topic within one or two."""
_ALONE = (
    "no other topic of the source still has the id that it had before; another cluster, or one that lost its data,"
    " looks the same"
)

Positions = Mapping[TopicPartition, Position]


class Former(msgspec.Struct, frozen=True):
    """A copy of a topic that no longer exists: the present ids on both sides, and a position that names the old one."""

    ids: tuple[UUID, UUID]
    position: Position


class Renewals:
    """Checks topics in each round of discovery; reads positions only if a topic has an id that was not checked yet."""

    def __init__(self, flow: FlowConfig, source: ClusterClient, target: ClusterClient) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._looked_at: dict[str, tuple[UUID, UUID]] = {}
        self._deleted: set[UUID] = set()
        """Ids of deleted copies; a broker that has not learned of a deletion may name one for a while."""
        self._told: dict[str, str] = {}
        """The text of the last event of each topic whose copy still exists."""
        self._unsure: Counter[str] = Counter()
        self._seen: dict[str, UUID] = {}
        """The ids of all topics of the source when no topic was last in question, and of topics deleted before that."""
        self._replaced: set[str] = set()
        """Ids of source topics whose copies were deleted."""

    async def check(
        self, copies: Mapping[str, str], source: Metadata, target: Metadata, *, may_delete: bool
    ) -> list[AnyEvent]:
        """Delete the copies (source topic -> name of its copy) of previous topics; discovery creates them again next.

        Raises ConnectionLost, BrokerUnreachable. A refusal of the target, and an uncertain case, is an event, once.
        """
        ids = {topic: self._ids(topic, copy, source, target) for topic, copy in copies.items()}
        new = {
            topic: both
            for topic, both in ids.items()
            if both is not None and both[1] not in self._deleted
            if self._wants(topic) and self._looked_at.get(topic) != both
        }
        if new and not may_delete:
            return []
        stored = await self._positions() if new else {}
        former = self._former(new, stored)
        self._looked_at |= {topic: both for topic, both in new.items() if topic not in former}
        if not former:
            self._see(source)
            return []
        others = self._others(former, stored, source)
        events: list[AnyEvent] = []
        of_logs: str | None = None
        for topic, one in former.items():
            doubt = self._doubt(topic, one, others, source)
            try:
                if not doubt:
                    doubt = of_logs = await self._doubt_of_logs(others, source) if of_logs is None else of_logs
                if not doubt:
                    await self._be_certain(topic, copies[topic], one)
            except (ConnectionLost, BrokerUnreachable, KafkaRefusal) as unsure:
                events += self._unclear(topic, copies[topic], one, str(unsure))
                continue
            self._unsure.pop(topic, None)
            if doubt:
                events += self._kept(topic, copies[topic], one, doubt)
            else:
                events += await self._delete(topic, copies[topic], one)
        return events

    def _unclear(self, topic: str, copy: str, former: Former, why: str) -> list[AnyEvent]:
        self._unsure[topic] += 1
        if self._unsure[topic] < _UNSURE_ROUNDS:
            return []
        return self._kept(topic, copy, former, f"raymirror cannot find out whether that is so ({why})")

    async def _delete(self, topic: str, copy: str, former: Former) -> list[AnyEvent]:
        """Delete a copy by its id: a request that a broker carries out late deletes no copy that was created since."""
        try:
            await delete_topic_by_id(self._target, copy, former.ids[1])
        except (ConnectionLost, BrokerUnreachable):
            return []  # the next round shows whether it is gone
        except KafkaRefusal as refusal:
            return self._once(topic, TopicFailed(flow=self._flow.name, topic=topic, what=str(refusal)))
        self._told.pop(topic, None)
        self._replaced.add(former.position.source_topic_id)
        self._deleted.add(former.ids[1])
        before, now = former.position.source_topic_id, text_id(former.ids[0])
        return [CopyDeleted(flow=self._flow.name, topic=topic, target=copy, former=before, present=now)]

    def _kept(self, topic: str, copy: str, former: Former, what: str) -> list[AnyEvent]:
        before, now = former.position.source_topic_id, text_id(former.ids[0])
        event = CopyKept(flow=self._flow.name, topic=topic, target=copy, former=before, present=now, what=what)
        return self._once(topic, event)

    def _once(self, topic: str, event: AnyEvent) -> list[AnyEvent]:
        """Return the event, unless it is the same as the last event of its topic."""
        told, self._told[topic] = self._told.get(topic), event.text()
        return [] if told == event.text() else [event]

    def _wants(self, topic: str) -> bool:
        return self._flow.faults.on_renewal(topic) is OnRenewal.RECREATE

    @staticmethod
    def _ids(topic: str, copy: str, source: Metadata, target: Metadata) -> tuple[UUID, UUID] | None:
        here, there = source.topics[topic], target.topics.get(copy)
        if there is None or not there.partitions or not here.topic_id.int or not there.topic_id.int:
            return None
        return here.topic_id, there.topic_id

    # --- evidence --------------------------------------------------------------------------------------------

    async def _positions(self) -> Positions:
        records = await read_topic(self._target, self._flow.positions_topic)
        found = decode_positions(records, self._flow.position_keys)
        return {lane: position for lane, position in found.items() if isinstance(position, Position)}

    @staticmethod
    def _former(new: Mapping[str, tuple[UUID, UUID]], stored: Positions) -> dict[str, Former]:
        """Return the topics whose present copy some position names together with another source topic id."""
        former: dict[str, Former] = {}
        for lane, position in stored.items():
            if lane.topic not in new or not position.source_topic_id:
                continue
            here, there = map(text_id, new[lane.topic])
            if position.target_topic_id == there and position.source_topic_id != here:
                former[lane.topic] = Former(new[lane.topic], position)
        return former

    @staticmethod
    def _others(former: Mapping[str, Former], stored: Positions, source: Metadata) -> Positions:
        """Return the positions whose topic still has the id that they name, in partitions with a leader."""
        return {
            lane: position
            for lane, position in stored.items()
            if lane.topic not in former
            and position.source_topic_id
            and position.source_topic_id == text_id(source.topic_id(lane.topic))
            and source.leader(lane)[0] >= 0
        }

    def _doubt(self, topic: str, former: Former, others: Positions, source: Metadata) -> str:
        """Return why the ids do not permit to delete a copy; empty if they do."""
        doubt = doubt_of_ids(former.position, self._source.identity.id, self._target.identity.id)
        if doubt:
            return doubt
        if text_id(former.ids[0]) in self._replaced:
            return "the source has a topic id again that was replaced before; a restored cluster looks like that"
        return "" if others or self._was_beside(topic, former, source) else _ALONE

    def _see(self, source: Metadata) -> None:
        """Store the topic ids of the source; a topic that is being created again does not exist for a moment.

        If no topic has the same id as before, it may be another cluster, and the earlier ids prove nothing.
        """
        now = {name: topic.topic_id for name, topic in source.topics.items() if topic.topic_id.int}
        same = any(now.get(name) == seen for name, seen in self._seen.items())
        before = {name: seen for name, seen in self._seen.items() if self._wants(name)} if same else {}
        self._seen = before | now

    def _was_beside(self, topic: str, former: Former, source: Metadata) -> bool:
        """Whether some topic has the same id as when this process saw it together with the previous topic."""
        if text_id(self._seen.get(topic, NO_ID)) != former.position.source_topic_id:
            return False
        return any(source.topic_id(name) == seen for name, seen in self._seen.items())

    async def _doubt_of_logs(self, others: Positions, source: Metadata) -> str:
        """Return which topic ends on the source below the offset up to which it was copied; empty if none does.

        Raises ConnectionLost, BrokerUnreachable, KafkaRefusal.
        """
        ends = await list_offsets(self._source, list(others), LATEST) if others else {}
        found = behind(others, ends, {lane: source.leader(lane)[1] for lane in others})
        return f"the source is an earlier state of the cluster, perhaps a restored one: {found}" if found else ""

    async def _be_certain(self, topic: str, copy: str, former: Former) -> None:
        """Raise ConnectionLost unless all brokers that answer name the same topic ids as the first broker."""
        settled = await self._source.settled_id(topic), await self._target.settled_id(copy)
        if settled != former.ids:
            raise ConnectionLost(f"topic {topic} or its copy has another id again")
