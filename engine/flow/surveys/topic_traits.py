"""Reads what a failback must know of the topics of a flow: partitions and cleanup on both clusters."""

from collections.abc import Callable, Mapping

from engine.flow.ports.settings_port import Settings
from policies.dr.separation import TopicTraits
from policies.sync.config_sync import TopicState
from policies.sync.topic_configs import ConfigEntry

_CONFIGS = ("cleanup.policy", "delete.retention.ms")


async def topic_traits(
    source: Settings,
    target: Settings,
    topics: Mapping[str, TopicState],
    copy_of: Callable[[str], str],
    feeds: Callable[[str], tuple[str, ...]],
) -> dict[str, TopicTraits]:
    """Read the traits of source topics. Raises ConnectionLost, BrokerUnreachable.

    `copy_of`: the name of a copy; `feeds`: the other clusters that a topic is copied to.
    """
    copies = {topic: copy_of(topic) for topic in topics}
    there = await target.topics(sorted(copies.values()))
    theirs = await source.configs(dict.fromkeys(topics, _CONFIGS))
    ours = await target.configs(dict.fromkeys(there, _CONFIGS))
    traits: dict[str, TopicTraits] = {}
    for topic, copy in copies.items():
        if copy in there and topic in theirs.found and copy in ours.found:
            known = _traits(topics[topic], there[copy], theirs.found[topic], ours.found[copy], feeds(topic))
        else:
            why = theirs.failed.get(topic) or ours.failed.get(copy)
            known = TopicTraits(unknown=why or f"its copy {copy} does not exist on the target")
        traits[topic] = known
    return traits


def _traits(
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
        source_delete_retention_ms=int(here["delete.retention.ms"].value),
        feeds=feeds,
    )
