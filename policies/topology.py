"""Finds faults that need several flows: two flows write one topic, or flows copy in a loop."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, product

import msgspec

from policies.model import FlowName
from policies.patterns import literal
from policies.selection import TopicSelection

_MOST_WITNESSES = 200
_MOST_STEPS = 20_000


class Loop(msgspec.Struct, frozen=True):
    """A source topic that would be copied in an endless loop, and the clusters that it passes."""

    topic: str
    clusters: tuple[str, ...]

    def __str__(self) -> str:
        return f"topic {self.topic!r} would be copied {' -> '.join(self.clusters)} in an endless loop"


def colliding_targets(wanted: Mapping[FlowName, Mapping[str, str]]) -> list[tuple[str, str, FlowName, FlowName]]:
    """Return (target alias, target topic, one flow, another flow) for every target topic that two flows write.

    `wanted` maps each flow to its source topics and their target names.
    """
    owners: dict[tuple[str, str], FlowName] = {}
    found: list[tuple[str, str, FlowName, FlowName]] = []
    for flow, topics in wanted.items():
        for target in topics.values():
            other = owners.setdefault((flow.target, target), flow)
            if other != flow:
                found.append((flow.target, target, other, flow))
    return found


def keeper_of(pair: FlowName, flows: Sequence[FlowName]) -> FlowName:
    """Return the flow that serves a pair of clusters without a flow: the reverse flow, else one to the same target."""
    back = [flow for flow in flows if flow == (pair.target, pair.source)]
    return next(iter([*back, *(flow for flow in flows if flow.target == pair.target), *flows]))


def named_targets(flows: Iterable[TopicSelection]) -> dict[FlowName, dict[str, str]]:
    """Return the topics that flows list by name, with their target names: known without asking a cluster."""
    return {
        flow.flow: {
            topic: flow.target_topic(topic)
            for topic in map(literal, flow.include.patterns)
            if topic is not None and flow.wants(topic)
        }
        for flow in flows
    }


def find_loop(flows: Sequence[TopicSelection], topics: Iterable[str]) -> Loop | None:
    """Return the first of some topics that flows would copy in a loop, from any source cluster; None if none.

    Default naming stops a copy that comes back. Identity naming cannot, and a mixture of both may hide the path. So
    this follows the path of a topic name by name. It is a loop if it reaches a (cluster, topic) again, or one cluster
    for the third time under longer and longer names. In a mesh of many clusters it follows only the first _MOST_STEPS
    steps.
    """
    if _names_tell_the_way(flows):
        return None
    steps = count()
    for topic, start in product(topics, dict.fromkeys(flow.flow.source for flow in flows)):
        clusters = _walk(flows, ((start, topic),), steps)
        if clusters is not None:
            return Loop(topic, clusters)
    return None


def _names_tell_the_way(flows: Sequence[TopicSelection]) -> bool:
    """Whether every name shows the clusters that it passed, so that each flow sees which topics were on its target."""
    separators = {flow.naming.separator for flow in flows}
    aliases = {alias for flow in flows for alias in flow.flow}
    readable = len(separators) == 1 and not any(separator in alias for separator in separators for alias in aliases)
    return readable and all(flow.naming.shows_source for flow in flows)


def _walk(
    flows: Sequence[TopicSelection], way: tuple[tuple[str, str], ...], steps: Iterator[int]
) -> tuple[str, ...] | None:
    cluster, topic = way[-1]
    for flow in flows:
        if flow.flow.source != cluster or next(steps) > _MOST_STEPS or not flow.wants(topic):
            continue
        after = (flow.flow.target, flow.target_topic(topic))
        visits = sum(1 for visited, _ in way if visited == after[0])
        if after in way or visits >= 2:
            return (*(visited for visited, _ in way), after[0])
        found = _walk(flows, (*way, after), steps)
        if found is not None:
            return found
    return None


def witnesses(flows: Iterable[TopicSelection]) -> tuple[str, ...]:
    """Return topic names that the patterns of flows probably share: a sample of each, and joined samples.

    They serve checks without a cluster: a name with a fault proves the fault; if no name has one, nothing is proven.
    """
    patterns = dict.fromkeys(pattern for flow in flows for pattern in flow.include.patterns)
    samples = list(dict.fromkeys(sample for sample in map(_sample, patterns) if sample))
    joined = (one + other for one, other in product(samples, samples) if one != other)
    return tuple(dict.fromkeys([*samples, *joined]))[:_MOST_WITNESSES]


def _sample(pattern: str) -> str:
    """Return a name that a simple pattern matches; for other patterns a name that may match nothing."""
    text = re.sub(r"\\[wS]|(?<!\\)\.|\[[^\]]*[a-z][^\]]*\]", "x", pattern)
    text = re.sub(r"\\d|\[[^\]]*0[^\]]*\]", "0", text)
    while (simpler := re.sub(r"\((?:\?:)?([^()|]*)(?:\|[^()]*)?\)", r"\1", text)) != text:
        text = simpler
    text = re.sub(r"[*+?]+|\{\d+(,\d*)?\}", "", text.split("|")[0])
    return re.sub(r"\\(\W)", r"\1", text)
