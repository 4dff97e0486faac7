"""Finds patterns of a flow that match nothing on its source; warns before a start, with the likely intended name."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.config.settings import BANDWIDTH_KEY, PRIORITY_KEY, ConfigWarning, FlowConfig
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.groups.groups import KafkaGroups
from policies.files.meant import Idle, excluded_patterns, idle_patterns
from policies.words import counted

Places = Mapping[str, tuple[str, int]]
"""The place in the file that sets each pattern list: `A->B.topics` -> (key, line)."""
_PATIENCE_S = 3.0
_THEN: Final = {
    "topics": "is copied",
    "groups": "is mirrored",
    BANDWIDTH_KEY: "is limited",
    PRIORITY_KEY: "has this class",
}
"""What happens to a name that matches a pattern of a key. Of exclusions only near misses are told."""


def idle_topics(flow: FlowConfig, topics: Sequence[str], places: Places) -> Iterator[ConfigWarning]:
    """Yield a warning for each pattern of the file that matches no topic of the source."""
    yield from _idle(flow, "topics", flow.topics, topics, places)
    yield from _idle(flow, "topics.exclude", flow.topics_exclude, topics, places)
    yield from _all_excluded(flow, topics, places)
    for key, rules in ((BANDWIDTH_KEY, flow.traffic.bandwidth), (PRIORITY_KEY, flow.traffic.priorities)):
        for rule in rules:
            if rule.said:  # a limit of the whole flow has no pattern
                yield from _idle(flow, key, [rule.said], topics, places)


def idle_groups(flow: FlowConfig, groups: Sequence[str], places: Places) -> Iterator[ConfigWarning]:
    """Yield the same for consumer groups."""
    yield from _idle(flow, "groups", flow.groups.include, groups, places)
    yield from _idle(flow, "groups.exclude", flow.groups.exclude, groups, places)


async def source_groups(client: ClusterClient, flow: FlowConfig, places: Places) -> list[str] | None:
    """Return the source's groups; None if no pattern asks for them, or if a broker does not list all its groups."""
    mirrored = flow.groups.checkpoints or flow.groups.commits
    if not mirrored or not places.keys() & {f"{flow.name}.groups", f"{flow.name}.groups.exclude"}:
        return None
    try:
        listed = await KafkaGroups(client, patience_s=_PATIENCE_S).list_groups()
    except (BrokerUnreachable, ConnectionLost, KafkaRefusal):
        return None  # not important here: a running mirror reports groups that it may not see
    if listed.unheard or listed.loading:
        return None  # groups that a broker has not loaded yet are missing from its answer
    return [listing.group for listing in listed.groups]


def _idle(
    flow: FlowConfig, name: str, patterns: Sequence[str], names: Sequence[str], places: Places
) -> Iterator[ConfigWarning]:
    """Compare patterns of the file with names. Exclusions often match nothing, so for them only near misses count."""
    if place := places.get(f"{flow.name}.{name}"):
        key, line = place
        for idle in idle_patterns(patterns, names):
            if idle.meant is not None or not name.endswith(".exclude"):
                yield ConfigWarning(line, key, _text(flow, name, idle))


def _all_excluded(flow: FlowConfig, topics: Sequence[str], places: Places) -> Iterator[ConfigWarning]:
    """Yield a warning for each pattern of the file whose topics are all excluded."""
    if place := places.get(f"{flow.name}.topics"):
        key, line = place
        for pattern, count in excluded_patterns(flow.topics, flow.topics_exclude, topics):
            them = "it" if count == 1 else "all of them"
            text = f"pattern {pattern!r} matches {counted(count, 'topic')} of cluster {flow.name.source!r}, but"
            yield ConfigWarning(line, key, f"{text} topics.exclude removes {them}: topics.exclude wins over topics")


def _text(flow: FlowConfig, name: str, idle: Idle) -> str:
    what = "consumer group" if name.startswith("groups") else "topic"
    meant = f"if one appears later, it {_THEN[name]}" if idle.meant is None else f"did you mean {idle.meant}?"
    return f"pattern {idle.pattern!r} matches no {what} of cluster {flow.name.source!r}; {meant}"
