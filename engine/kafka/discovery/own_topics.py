"""Creates or checks raymirror's own topics of a flow, in each round of discovery."""

from uuid import UUID

from engine.base.errors import KafkaRefusal
from engine.config.settings import FlowConfig
from engine.core.events.events import Mm2TopicFailed
from engine.core.offset_map.map_blocks import map_topic
from engine.core.refused.entries import quarantine_topic
from engine.kafka.admin.admin import create_topic
from engine.kafka.admin.hidden_topics import refused_by
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
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.metadata import Metadata
from engine.kafka.discovery.discovery_events import DiscoveryEvents
from policies.sync.acl_sync import Operation


class OwnTopics:
    """The topics of positions, map, offset syncs and quarantine; nothing is copied without the first two."""

    def __init__(self, flow: FlowConfig, source: ClusterClient, target: ClusterClient, events: DiscoveryEvents) -> None:
        self._flow, self._source, self._target, self._events = flow, source, target, events
        self._checked: dict[str, UUID] = {}
        """Ids of the topics whose cleanup policy was checked."""

    async def ensure_needed(self) -> Metadata:
        """Create or check the topics of positions and map; both need the same number of partitions.

        The blocks of a lane are on the partition with the number of its position's. One request per round shows whether
        the topics exist; the cleanup policy is checked once for each topic id. Raises KafkaRefusal if one does not fit.
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

    async def ensure_syncs(self) -> None:
        """Create the offset-syncs topic on its cluster, also after a deletion; copying does not wait for it."""
        syncs, name = self._flow.syncs, self._flow.name
        if not syncs.enabled:
            return
        client = self._source if syncs.cluster == name.source else self._target
        try:
            await ensure_mm2_topic(client, syncs.topic, syncs.replication_factor, SYNCS_KEY)
        except KafkaRefusal as refusal:
            what = str(refusal)
            event = Mm2TopicFailed(flow=name, topic=syncs.topic, cluster=syncs.cluster, what=what)
            self._events.fail_as(syncs.topic, what, event)
        else:
            self._events.passed(syncs.topic)

    async def ensure_quarantine(self) -> None:
        """Create the quarantine topic if refused records are left out; without it, lanes wait at such records."""
        flow, topic = self._flow, quarantine_topic(self._flow.name.source)
        if not flow.faults.leaves_out:
            return
        try:
            await ensure_quarantine_topic(self._target, topic, flow.positions_replication_factor)
        except KafkaRefusal as refusal:
            self._events.fail(topic, f"{refusal}; until then, partitions wait at records that the target refuses")
        else:
            self._events.passed(topic)
