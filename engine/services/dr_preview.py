"""Previews a failover and the failback after it, for `raymirror dr preview`. Reads both clusters, writes nothing."""

from collections.abc import Mapping

from engine.base.clock import wall_ms
from engine.config.settings import FlowConfig, MirrorConfig
from engine.flow.ports.settings_port import Settings
from engine.flow.surveys.dr_preview import (
    DrPreview,
    group_failbacks,
    losses_of,
    partition_failbacks,
    unknown_losses,
)
from engine.flow.surveys.separation_survey import SeparationSurvey, SurveyedPartition
from engine.flow.topic_logs.last_known import LastKnown
from engine.kafka.admin.settings import KafkaSettings
from engine.services.failover import Failover
from engine.services.maps import last_known_of
from policies.dr.separation import TopicTraits
from policies.sync.config_sync import TopicState
from policies.sync.topic_configs import ConfigEntry

_CONFIGS = ("cleanup.policy", "delete.retention.ms")


class PreviewService(Failover):
    """The preview of one flow, over connections of its own, as an async context. Raises what `Failover` raises."""

    def __init__(self, config: MirrorConfig, flow: FlowConfig) -> None:
        super().__init__(config, flow)
        self._config = config

    async def preview(self) -> DrPreview:
        """Read both clusters, or the target alone if the source does not answer.

        Raises ConnectionLost, BrokerUnreachable, KafkaRefusal.
        """
        known = await last_known_of(self._flow, self._target)
        found = [] if self.gone else await self._survey(known)
        at_ms = wall_ms()
        standing = await self.hold(0.0, commit=False, undrained={})
        rows, failed = ([], {}) if self.gone else await (await self.way_back(backwards=False)).read()
        return DrPreview(
            flow=str(self._flow.name),
            at_ms=at_ms,
            source=self.gone,
            losses=unknown_losses(known.lanes) if self.gone else losses_of(found, at_ms),
            standing=standing,
            partitions=partition_failbacks(found),
            groups=group_failbacks(rows, found),
            failed=failed,
            unread=known.unread,
        )

    async def _survey(self, known: LastKnown) -> list[SurveyedPartition]:
        """Survey every partition that the flow copies; heartbeats are left out, because mirrors write them."""
        naming, selection = self._flow.naming, self._flow.selection
        here, there = (KafkaSettings(client) for client in self._clients)
        topics = {
            name: state
            for name, state in (await here.topics(None)).items()
            if selection.wants(name) and not naming.is_heartbeats_topic(name)
        }
        facts = await topic_traits(self._config, self._flow, topics, here, there)
        lanes = selection.lanes({name: state.partitions for name, state in topics.items()})
        survey = SeparationSurvey(self._source, self._target, self._maps)
        return await survey.look(lanes, {one.lane: one for one in known.lanes}, facts)


async def topic_traits(
    config: MirrorConfig,
    flow: FlowConfig,
    topics: Mapping[str, TopicState],
    source: Settings,
    target: Settings,
) -> dict[str, TopicTraits]:
    """Read what a failback must know of source topics. Raises ConnectionLost, BrokerUnreachable."""
    copies = {topic: flow.selection.target_topic(topic) for topic in topics}
    there = await target.topics(sorted(copies.values()))
    theirs = await source.configs(dict.fromkeys(topics, _CONFIGS))
    ours = await target.configs(dict.fromkeys(there, _CONFIGS))
    facts: dict[str, TopicTraits] = {}
    for topic, copy in copies.items():
        if copy in there and topic in theirs.found and copy in ours.found:
            configs = theirs.found[topic], ours.found[copy]
            facts[topic] = _facts(topics[topic], there[copy], *configs, fed_too(config, flow, topic))
        else:
            why = theirs.failed.get(topic) or ours.failed.get(copy)
            facts[topic] = TopicTraits(unknown=why or f"its copy {copy} does not exist on the target")
    return facts


def _facts(
    source: TopicState,
    target: TopicState,
    here: Mapping[str, ConfigEntry],
    there: Mapping[str, ConfigEntry],
    feeds: tuple[str, ...],
) -> TopicTraits:
    policies, theirs = (one["cleanup.policy"].value.split(",") for one in (there, here))
    return TopicTraits(
        source_partitions=source.partitions,
        target_partitions=target.partitions,
        is_compacted="compact" in policies or "compact" in theirs,
        is_expiring="delete" in policies,
        delete_retention_ms=int(there["delete.retention.ms"].value),
        feeds=feeds,
    )


def fed_too(config: MirrorConfig, flow: FlowConfig, topic: str) -> tuple[str, ...]:
    """Return the other clusters that flows of the configuration copy a source topic to."""
    return tuple(
        other.name.target
        for other in config.flows
        if other.name.source == flow.name.source
        and other.name.target != flow.name.target
        and other.selection.wants(topic)
    )
