"""Surveys, for `raymirror takeover --check`, what a start of each flow would find. Writes nothing."""

from collections import Counter
from collections.abc import Callable

import msgspec

from engine.base.errors import KafkaRefusal, NotReady
from engine.checks.mm2_preflight import OtherConnector
from engine.checks.preflight import preview
from engine.config.settings import FlowConfig, MirrorConfig
from engine.flow.ownership.starts import StartResolver
from engine.flow.ownership.stored_positions import Stored, stored_positions
from engine.flow.surveys.mm2_presence import Mm2Presence, mm2_presence
from engine.flow.surveys.takeover_survey import LaneSurvey, TakeoverSurvey
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.gateway import KafkaCluster
from engine.kafka.groups.groups import KafkaGroups
from engine.services.clients import clients_of, opened
from policies.model import TopicPartition
from policies.words import counted

CLIENT_ID = "raymirror-takeover"


class FlowSurvey(msgspec.Struct, frozen=True, kw_only=True):
    """One flow: MM2's group and whether it has members, the obstacles to a start, and every lane."""

    flow: str
    mm2_group: str
    mm2_active: bool
    obstacles: tuple[str, ...]
    lanes: tuple[LaneSurvey, ...]

    @property
    def ready(self) -> bool:
        """Whether a start would not be refused."""
        return not self.mm2_active and not self.obstacles

    @property
    def exact(self) -> bool:
        """Whether every record would be on the target once."""
        return all(lane.exact for lane in self.lanes)

    @property
    def writers(self) -> dict[str, int]:
        """Lanes by who wrote their positions."""
        return dict(Counter(lane.writer for lane in self.lanes))


async def survey_flow(
    config: MirrorConfig, flow: FlowConfig, begun: Callable[[int], object], done: Callable[[], object]
) -> FlowSurvey:
    """Survey one flow; `begun` is called with its number of lanes, `done` once per lane.

    Raises BrokerUnreachable, ConnectionLost, ConfigError (a placeholder).
    """
    obstacles = await _obstacles(config, flow)
    source, target = clients_of(config, flow.name, CLIENT_ID)
    async with opened(source, target):
        source_port, target_port = KafkaCluster(source), KafkaCluster(target)
        topics = (await source.metadata(None)).topics
        lanes = flow.selection.lanes({n: len(one.partitions) for n, one in topics.items() if not one.is_internal})
        begun(len(lanes))
        presence = await mm2_presence(target_port, KafkaGroups(target), flow.mm2_group)
        stored = await _stored(target, flow, obstacles)
        starts = StartResolver(source_port, flow.starts.start_for)
        survey = TakeoverSurvey(source_port, target_port, starts, read_committed=flow.mm2_read_committed)
        found = await survey.survey(lanes, stored, done)
    obstacles += [presence.unknown] if presence.unknown else []
    return _told(flow, presence, obstacles, found)


def _told(flow: FlowConfig, presence: Mm2Presence, obstacles: list[str], lanes: list[LaneSurvey]) -> FlowSurvey:
    return FlowSurvey(
        flow=str(flow.name),
        mm2_group=flow.mm2_group,
        mm2_active=presence.active,
        obstacles=tuple(obstacles),
        lanes=tuple(lanes),
    )


async def _obstacles(config: MirrorConfig, flow: FlowConfig) -> list[str]:
    """Run the checks of `check` for this flow alone; a refusal is returned, not raised."""
    try:
        await preview(msgspec.structs.replace(config, flows=(flow,)))
    except NotReady as refused:
        return list(refused.problems)
    except KafkaRefusal as refusal:
        return [str(refusal)]
    return []


async def _stored(target: ClusterClient, flow: FlowConfig, obstacles: list[str]) -> dict[TopicPartition, Stored]:
    """Read the positions; add an obstacle if they cannot be read, or if raymirror cannot continue from them."""
    topic, wanted = flow.positions_topic, flow.positions_partitions
    found = (await target.metadata([topic])).topics.get(topic)
    if found is not None and found.partitions and len(found.partitions) != wanted:
        right = f"set offset.storage.partitions = {len(found.partitions)}"
        obstacles.append(
            f"topic {topic} has {counted(len(found.partitions), 'partition')}, configured: {wanted}; {right}"
        )
    try:
        stored = await stored_positions(KafkaCluster(target), topic, flow.position_keys)
    except KafkaRefusal as refusal:
        obstacles.append(str(refusal))
        return {}
    if others := stored.kept_elsewhere(flow.selection.wants):
        obstacles.append(str(OtherConnector(str(flow.name), topic, flow.connector, others)))
    return stored.lanes
