"""Previews a failover and the failback after it, for `raymirror dr preview`. Reads both clusters, writes nothing."""

from collections.abc import Iterable, Mapping

import msgspec

from engine.base.clock import wall_ms
from engine.config.settings import FlowConfig, MirrorConfig
from engine.flow.surveys.dr_preview import (
    DrPreview,
    group_failbacks,
    losses_of,
    partition_failbacks,
    unknown_losses,
)
from engine.flow.surveys.readiness_survey import survey_readiness
from engine.flow.surveys.separation_survey import SeparationSurvey, SurveyedPartition
from engine.flow.surveys.topic_traits import topic_traits
from engine.flow.topic_logs.last_known import KnownLane, LastKnown
from engine.kafka.admin.settings import KafkaSettings
from engine.kafka.admin.unfenced_settings import UnfencedSettings
from engine.services.dr.failover import Failover
from engine.services.maps import last_known_of, quarantine_reader_of
from engine.state.state import failed_over_at
from policies.dr.readiness import ClientRules
from policies.model import LaneName, TopicPartition
from policies.sync.config_sync import TopicState


class PreviewService(Failover):
    """The preview of one flow, over connections of its own, as an async context. Raises what `Failover` raises."""

    def __init__(self, config: MirrorConfig, flow: FlowConfig) -> None:
        super().__init__(config, flow)
        self._config = config
        self._here = UnfencedSettings(self._clients[0], self._source, self._target, flow.name)
        self._there = KafkaSettings(self._clients[1])
        self._opened = UnfencedSettings(self._clients[1], self._source, self._target, flow.name)
        """The target as it is when applications move there: fences that earlier operations left are lifted then."""

    async def preview(self) -> DrPreview:
        """Read both clusters, or the target alone if the source does not answer.

        Raises ConnectionLost, BrokerUnreachable, KafkaRefusal, NewerFormat, StateUnreadable.
        """
        known = await last_known_of(self._flow, self._target)
        found = await (self._of_target(known) if self.gone else self._of_both(known))
        return msgspec.structs.replace(found, failed_over_ms=failed_over_at(await self.state()))

    async def _of_target(self, known: LastKnown) -> DrPreview:
        return DrPreview(
            flow=str(self._flow.name),
            at_ms=wall_ms(),
            source=self.gone,
            losses=unknown_losses(known.lanes),
            standing=await self.hold(0.0, commit=False, undrained={}),
            unread=known.unread,
        )

    async def _of_both(self, known: LastKnown) -> DrPreview:
        flow, topics = self._flow, await self._topics()
        found = await self._surveyed(known, topics)
        at_ms = wall_ms()
        rules = ClientRules(selection=flow.selection, groups=flow.groups.selection, copied=frozenset(topics))
        rows, failed = await (await self.way_back(backwards=False)).read()
        return DrPreview(
            flow=str(flow.name),
            at_ms=at_ms,
            source="",
            losses=losses_of(found, at_ms),
            standing=await self.hold(0.0, commit=False, undrained={}),
            readiness=await survey_readiness(self._here, self._opened, topics, rules),
            partitions=partition_failbacks(found),
            groups=group_failbacks(rows, found),
            failed=failed,
            unread=known.unread,
        )

    async def survey(self) -> list[SurveyedPartition]:
        """Survey every partition; the source must answer. Raises what `preview` raises."""
        return await self._surveyed(await last_known_of(self._flow, self._target), await self._topics())

    async def _surveyed(self, known: LastKnown, topics: Mapping[str, TopicState]) -> list[SurveyedPartition]:
        flow, selection = self._flow, self._flow.selection
        traits = await topic_traits(
            KafkaSettings(self._clients[0]),  # what brokers do by, also while it is lent
            self._there,
            topics,
            selection.target_topic,
            lambda topic: fed_too(self._config, flow, topic),
        )
        lanes = selection.lanes({name: state.partitions for name, state in topics.items()})
        quarantine = quarantine_reader_of(flow, self._target)
        survey = SeparationSurvey(self._source, self._target, self._maps, quarantine)
        return await survey.look(lanes, positions_of(lanes, known), traits)

    async def _topics(self) -> dict[str, TopicState]:
        """Return the topics that the flow copies; heartbeats are left out, because mirrors write them."""
        naming, selection = self._flow.naming, self._flow.selection
        return {
            name: state
            for name, state in (await self._here.topics(None)).items()
            if selection.wants(name) and not naming.is_heartbeats_topic(name)
        }


def positions_of(lanes: Iterable[LaneName], known: LastKnown) -> dict[TopicPartition, KnownLane]:
    """Return the positions of lanes; one without a position has one that is not known if some could not be read."""
    found = {one.lane: one for one in known.lanes}
    for partition, why in list(known.unread.items())[:1]:
        text = f"its position may be in {partition}, which cannot be read: {why}"
        for lane in lanes:
            unread = KnownLane(lane=lane.source, target=lane.target, source_next=-1, at_ms=-1, ours=False, why=text)
            found.setdefault(lane.source, unread)
    return found


def fed_too(config: MirrorConfig, flow: FlowConfig, topic: str) -> tuple[str, ...]:
    """Return the other clusters that flows of the configuration copy a source topic to."""
    return tuple(
        other.name.target
        for other in config.flows
        if other.name.source == flow.name.source
        and other.name.target != flow.name.target
        and other.selection.wants(topic)
    )
