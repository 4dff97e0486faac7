"""Copies of topics that were made anew on the source: deleted, where `raymirror.topic.recreated` says re-create.

What is stored with each lane's position tells which topic a copy was made of. So nothing is deleted on a guess: not a
topic that nobody of us wrote, and not one that was made anew after its source was.
"""

from collections.abc import Iterable, Mapping
from uuid import UUID

from engine.core.events import AnyEvent, CopyDeleted, TopicFailed
from engine.core.position import Position
from engine.errors import ConnectionLost, KafkaRefusal
from engine.flow.stored_positions import decode_positions
from engine.kafka.admin import delete_topic
from engine.kafka.cluster import ClusterClient
from engine.kafka.logs import read_topic
from engine.kafka.metadata import Metadata
from engine.kafka.protocol import text_id
from engine.settings import FlowConfig
from policies.topic_faults import OnRenewal


class Renewals:
    """Looks in each round of discovery; reads positions only where a topic has an id that was not looked at yet."""

    def __init__(self, flow: FlowConfig, source: ClusterClient, target: ClusterClient) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._looked_at: dict[str, tuple[UUID, UUID]] = {}
        self._refused: dict[str, str] = {}
        self._deleted: set[UUID] = set()
        """Copies that are gone; a broker may name one for a while that has not heard of it."""

    async def look(
        self, copies: Mapping[str, str], source: Metadata, target: Metadata, *, may_delete: bool
    ) -> list[AnyEvent]:
        """Delete the copies (source topic -> its name) that are of former topics; they are made anew next.

        Raises ConnectionLost, BrokerUnreachable; what the target refuses is an event, once.
        """
        ids = {topic: self._ids(topic, copy, source, target) for topic, copy in copies.items()}
        new = {
            topic: both
            for topic, both in ids.items()
            if both is not None and both[1] not in self._deleted
            if self._wants(topic) and self._looked_at.get(topic) != both
        }
        if not new or not may_delete:
            return []
        former = await self._former(new)
        self._looked_at |= {topic: both for topic, both in new.items() if topic not in former}
        events: list[AnyEvent] = []
        for topic, before in former.items():
            if await self._is_certain(topic, copies[topic], new[topic]):
                here, there = new[topic]
                events += await self._delete(topic, copies[topic], there, before, text_id(here))
        return events

    async def _delete(self, topic: str, copy: str, copy_id: UUID, former: str, present: str) -> list[AnyEvent]:
        try:
            await delete_topic(self._target, copy)
        except KafkaRefusal as refusal:
            told, self._refused[topic] = self._refused.get(topic), str(refusal)
            return [] if told == str(refusal) else [TopicFailed(flow=self._flow.name, topic=topic, what=str(refusal))]
        self._refused.pop(topic, None)
        self._deleted.add(copy_id)
        return [CopyDeleted(flow=self._flow.name, topic=topic, target=copy, former=former, present=present)]

    def _wants(self, topic: str) -> bool:
        return self._flow.faults.on_renewal(topic) is OnRenewal.RECREATE

    @staticmethod
    def _ids(topic: str, copy: str, source: Metadata, target: Metadata) -> tuple[UUID, UUID] | None:
        here, there = source.topics[topic], target.topics.get(copy)
        if there is None or not there.partitions or not here.topic_id.int or not there.topic_id.int:
            return None
        return here.topic_id, there.topic_id

    async def _former(self, new: Mapping[str, tuple[UUID, UUID]]) -> dict[str, str]:
        """Return the topics whose copy some position names together with another source topic, and that one's id."""
        records = await read_topic(self._target, self._flow.positions_topic)
        former: dict[str, str] = {}
        for lane, stored in decode_positions(records, self._flow.position_keys).items():
            if lane.topic not in new or not isinstance(stored, Position) or not stored.source_topic_id:
                continue
            here, there = map(text_id, new[lane.topic])
            if stored.target_topic_id == there and stored.source_topic_id != here:
                former[lane.topic] = stored.source_topic_id
        return former

    async def _is_certain(self, topic: str, copy: str, ids: Iterable[UUID]) -> bool:
        """Whether all brokers that answer name the same topics as the one that was asked."""
        try:
            settled = [await self._source.settled_id(topic), await self._target.settled_id(copy)]
        except ConnectionLost:
            return False
        return settled == list(ids)
