"""Builds the readers of what a flow's copiers write: positions, offset maps, refused records.

Every command and loop that translates the offsets of groups takes its maps from `group_maps_of`: those of the flow, and
the closed ones of the stints before. So all of them know a group that has read nothing since before a switchover.
"""

from collections.abc import Iterable, Mapping

import msgspec

from engine.config.settings import FlowConfig
from engine.core.offset_map.map_blocks import map_topic
from engine.core.position.position_keys import PositionKeys
from engine.flow.groups.map_chain import NO_STINTS, ChainedMaps, EarlierStints, LaneChain, ReadMaps
from engine.flow.groups.translations import Translations
from engine.flow.operations.reading import read_copy
from engine.flow.operations.stints import ClosedRow, MapTopics, Stints, replayed_to, stints_of
from engine.flow.ports.ports import Cluster
from engine.flow.refused.quarantine_reader import QuarantineReader
from engine.flow.topic_logs.last_known import LastKnown, last_known
from engine.flow.topic_logs.map_reader import MapOptions, MapReader
from engine.flow.topic_logs.sync_reader import SyncReader
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.data.partition_ends import BROKER_WITHIN_S
from engine.kafka.gateway import KafkaCluster
from policies.model import TopicPartition

_SYNCS_SINCE_S = 300.0
_WITHIN_S = 30.0
"""Who has time, as a mirror that copies has, waits for long maps."""


def clusters_of(flow: FlowConfig, clients: Iterable[ClusterClient]) -> tuple[KafkaCluster, KafkaCluster]:
    """Return source and target of a flow as the engine's port `Cluster`."""
    source, target = (KafkaCluster(client, request_timeout_s=flow.request_timeout_s) for client in clients)
    return source, target


async def last_known_of(flow: FlowConfig, target: KafkaCluster) -> LastKnown:
    """Read how far every partition of a flow was copied. Raises what `last_known` raises."""
    return await last_known(target, flow.positions_topic, flow.positions_partitions, flow.position_keys, flow.selection)


def maps_of(
    flow: FlowConfig,
    source: KafkaCluster,
    target: KafkaCluster,
    *,
    bears_away: bool = False,
    syncs_within_s: float | None = None,
) -> MapReader:
    """Build the reader of a flow's maps; it reads offset syncs if the flow writes them.

    `bears_away`: if a broker is unreachable, only lanes whose map or position it leads have no answers.
    `syncs_within_s`: after this many seconds the reader continues without offset syncs (None: it waits, or fails).
    """
    syncs = flow.syncs
    options = MapOptions(
        positions_topic=flow.positions_topic,
        position_keys=flow.position_keys,
        positions_partitions=flow.positions_partitions,
        syncs_topic=syncs.topic if syncs.enabled else "",
        syncs_since_s=max(_SYNCS_SINCE_S, 3 * flow.flush_s),
        bears_away=bears_away,
        syncs_within_s=syncs_within_s,
    )
    return MapReader(options, target, source if syncs.cluster == flow.name.source else target)


def quarantine_reader_of(flow: FlowConfig, target: Cluster) -> QuarantineReader:
    """Build the reader of the records that a flow's target has refused; without such a topic it finds none."""
    return QuarantineReader(target, flow.name.source, is_used=flow.faults.leaves_out)


def stored_maps_of(flow: FlowConfig, source: KafkaCluster, target: KafkaCluster) -> MapReader:
    """Build the reader of a flow's maps as positions have them: without offset syncs, which may be ahead of them."""
    stored = msgspec.structs.replace(flow, syncs=msgspec.structs.replace(flow.syncs, enabled=False))
    return maps_of(stored, source, target)


def group_maps_of(
    flow: FlowConfig,
    own: ReadMaps,
    source: Cluster,
    target: Cluster,
    *,
    backwards: bool = False,
    within_s: float = BROKER_WITHIN_S,
) -> ChainedMaps:
    """Return the maps that groups of a flow are placed by; `own`: its maps alone.

    `backwards`: offsets of the target are translated to the source, so what was replayed there counts. Copies with
    other names than their topics lie in other logs than what the reverse flow copies, so there is nothing before them.
    `within_s`: what one look at the maps may take for earlier stints.
    """
    if flow.naming.shows_source:
        return ChainedMaps(own, NO_STINTS)
    return ChainedMaps(own, StoredStints(flow, source, target, backwards=backwards), within_s=within_s)


def translations_of(flow: FlowConfig, source: KafkaCluster, target: KafkaCluster) -> Translations:
    """Build the translator of a flow's commits: by exact maps, and below their start by offset syncs, as MM2 does."""
    near = SyncReader(source if flow.syncs.cluster == flow.name.source else target, flow.syncs.topic)
    own = maps_of(flow, source, target, bears_away=True)
    maps = group_maps_of(flow, own, source, target, within_s=_WITHIN_S)
    return Translations(flow.selection, maps, target, near)


def map_topics_of(flow: FlowConfig) -> MapTopics:
    """Return where a flow keeps its maps, as a switchover stores it for the flow back."""
    return MapTopics(
        positions_topic=flow.positions_topic,
        partitions=flow.positions_partitions,
        connector=flow.connector,
        leaves_out=flow.faults.leaves_out,
    )


class StoredStints:
    """The stints before the present one of a flow, by the operations on its target (`StintsReader`).

    The maps of the reverse flow are on the source, since that is the target of the reverse flow.
    """

    def __init__(self, flow: FlowConfig, source: Cluster, target: Cluster, *, backwards: bool = False) -> None:
        self._flow, self._source, self._target, self._backwards = flow, source, target, backwards

    async def read(self) -> EarlierStints:
        """See StintsReader. Raises as `read_copy` and `stints_of` do, and as the reader of the quarantine topic."""
        stints = await self._stints()
        if not stints.starts or stints.topics is None:
            return EarlierStints(*NO_STINTS)
        await self._refuse_hidden(stints.topics)
        return EarlierStints(closed_maps_of(self._flow, stints.topics, self._source), await self._chains(stints))

    async def chains(self, last: Mapping[TopicPartition, ClosedRow]) -> dict[TopicPartition, LaneChain]:
        """Return the chains alone; `last`: the maps of the last stint, if they are stored elsewhere. Raises as `read`.

        For whoever has taken these maps from their positions, so that nothing else is left of them.
        """
        stints = await self._stints()
        return await self._chains(msgspec.structs.replace(stints, last=last or stints.last))

    async def _refuse_hidden(self, topics: MapTopics) -> None:
        """Raise KafkaRefusal if raymirror may not see a topic of the maps: to it, that looks like one without maps."""
        for topic in (topics.positions_topic, map_topic(self._flow.name.target)):
            if await self._source.leaders([TopicPartition(topic, 0)]):
                continue
            if (refusal := await self._source.hides(topic)) is not None:
                raise refusal

    async def _stints(self) -> Stints:
        return stints_of(await read_copy(self._target, self._flow.name), self._flow.name)

    async def _chains(self, stints: Stints) -> dict[TopicPartition, LaneChain]:
        replayed = replayed_to(await self._quarantine(stints.topics).states())
        sides = ({}, replayed) if self._backwards else (replayed, {})
        return stints.chains(self._flow.selection.target_topic, *sides)

    def _quarantine(self, topics: MapTopics | None) -> QuarantineReader:
        """Return the reader of what was replayed on the cluster whose offsets are translated."""
        if self._backwards:
            return quarantine_reader_of(self._flow, self._target)
        is_used = topics is not None and topics.leaves_out
        return QuarantineReader(self._source, self._flow.name.target, is_used=is_used)


def closed_maps_of(flow: FlowConfig, topics: MapTopics, source: Cluster) -> MapReader:
    """Build the reader of the maps of the reverse flow, which nothing copies.

    One unreachable broker keeps only those lanes from an answer whose maps it leads.
    """
    options = MapOptions(
        positions_topic=topics.positions_topic,
        positions_partitions=topics.partitions,
        position_keys=PositionKeys(flow.name.target, topics.connector),
        bears_away=True,
    )
    return MapReader(options, source)
