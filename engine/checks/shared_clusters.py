"""Finds aliases of a configuration that lead to one cluster, and flows that would loop or collide there."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from engine.base.errors import ConfigError, SameCluster
from engine.checks.creation_check import Problem, at_cluster
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.identity.same_cluster import Sameness, judge
from engine.kafka.admin.sameness import facts_of
from engine.kafka.client.metadata import Metadata
from policies.model import FlowName
from policies.naming import HEARTBEATS
from policies.shared_clusters import OneCluster, feeds_itself, find_way_back
from policies.topology import find_loop

Copies = Mapping[FlowName, Mapping[str, str]]
"""Source topics and their target names, by flow."""


class SharedClusters:
    """Compares all used aliases once, by the metadata of their clusters."""

    def __init__(self, config: MirrorConfig, flows: Sequence[FlowConfig], metadata: Mapping[str, Metadata]) -> None:
        self._config, self._flows, self._metadata = config, flows, metadata
        self._why: dict[frozenset[str], str] = {}
        self._unknown: dict[frozenset[str], str] = {}
        facts = {alias: facts_of(metadata[alias]) for alias in sorted(metadata)}
        self._same = {alias: alias for alias in facts}
        ignored = {frozenset(flow.name) for flow in flows if flow.same_cluster is OneCluster.IGNORE}
        for one, other in combinations(facts, 2):
            verdict = judge(facts[one], facts[other])
            if frozenset((one, other)) in ignored and not verdict.by_address:
                continue
            if verdict.sameness is Sameness.ONE:
                self._why[frozenset((one, other))] = verdict.why
                joined = self._same[other]
                self._same |= {alias: self._same[one] for alias, home in self._same.items() if home == joined}
            elif verdict.sameness is Sameness.UNKNOWN:
                self._unknown[frozenset((one, other))] = verdict.why

    def problems(self, copies: Copies) -> Iterator[Problem]:
        """Yield flows that would loop, or write one topic twice, on the clusters that the aliases really lead to."""
        yield from self._within_one()
        yield from self._feeding_themselves(copies)
        yield from self._ways_back(copies)
        yield from self._collisions(copies)

    def doubts(self, flow: FlowName) -> Iterator[str]:
        """Yield pairs of aliases that may lead to one cluster, and needless aliases of a cluster."""
        if why := self._unknown.get(frozenset(flow)):
            yield (
                f"{flow.source!r} and {flow.target!r} may lead to one cluster: {why}; if they do, topics are copied"
                " onto themselves, or to other names on that cluster; check"
                f" {' and '.join(f'{alias}.bootstrap.servers' for alias in flow)}"
            )
        for pair, why in self._why.items():
            if pair & set(flow) and pair != frozenset(flow):
                one, other = sorted(pair)
                yield f"{one!r} and {other!r} lead to one cluster: {why}; one alias for it is enough"

    def _within(self) -> Iterator[FlowConfig]:
        yield from (flow for flow in self._flows if self._same[flow.name.source] == self._same[flow.name.target])

    def _within_one(self) -> Iterator[Problem]:
        for flow in self._within():
            if flow.same_cluster is not OneCluster.ALLOW:
                why = self._why.get(frozenset(flow.name), "each leads to the same cluster as a third alias")
                error = SameCluster(str(flow.name), *flow.name, why)
                yield Problem(flow.name, at_cluster(self._config, flow.name.target, error.wrong, error.right), True)

    def _feeding_themselves(self, copies: Copies) -> Iterator[Problem]:
        for flow in self._within():
            if flow.same_cluster is not OneCluster.ALLOW:
                continue
            beats = [HEARTBEATS] if flow.heartbeats else []
            looping = [topic for topic in (*copies[flow.name], *beats) if feeds_itself(flow.selection, topic)]
            if looping:
                yield self._looping(flow, looping)

    def _looping(self, flow: FlowConfig, looping: Sequence[str]) -> Problem:
        selection = flow.selection
        topic = next((one for one in looping if not flow.naming.is_heartbeats_topic(one)), looping[0])
        copy = selection.target_topic(topic)
        rights = []
        if not flow.naming.shows_source:
            rights.append("use DefaultReplicationPolicy within one cluster")
        elif topic != HEARTBEATS:
            rights.append(
                f"exclude the copies: {flow.name}.topics.exclude = {flow.name.source}\\\\{flow.naming.separator}.*"
            )
        if any(flow.naming.is_heartbeats_topic(one) for one in looping):
            rights.append(f"set {flow.name}.heartbeats.replication.enabled = false")
        wrong = f"within one cluster topic {copy!r} would be copied to {selection.target_topic(copy)!r}, and so on"
        return self._at(flow, "topics", wrong, "; ".join(rights))

    def _ways_back(self, copies: Copies) -> Iterator[Problem]:
        selections = [flow.selection for flow in self._flows]
        topics = sorted({topic for those in copies.values() for topic in those})
        if (loop := find_loop(selections, topics)) is not None:
            right = "use DefaultReplicationPolicy for these flows, or topics that do not overlap"
            yield self._at(self._flow_to(loop.clusters[-1]), "topics", str(loop), right)
        sources = {flow.name.source: list(copies[flow.name]) for flow in self._flows}
        if (loop := find_way_back(selections, sources, self._same)) is not None:
            last = loop.clusters[-1]
            first = next(alias for alias in loop.clusters if self._same[alias] == self._same[last])
            wrong = (
                f"{first!r} and {last!r} lead to one cluster, so topic {loop.topic!r} would come back there:"
                f" {' -> '.join(loop.clusters)}"
            )
            flow = self._flow_to(last)
            text = at_cluster(self._config, last, wrong, f"write {first!r} instead of {last!r} in every flow")
            yield Problem(flow.name, text, True)

    def _collisions(self, copies: Copies) -> Iterator[Problem]:
        owners: dict[tuple[str, str], FlowConfig] = {}
        told: set[tuple[FlowName, FlowName]] = set()
        for flow in self._flows:
            home = self._same[flow.name.target]
            for topic in copies[flow.name].values():
                other = owners.setdefault((home, topic), flow)
                if other is flow or (other.name, flow.name) in told:
                    continue
                told.add((other.name, flow.name))
                wrong = f"{other.name} and {flow.name} would both write topic {topic!r} on cluster {flow.name.target!r}"
                yield self._at(flow, "topics", wrong, "give one of them other topics, or DefaultReplicationPolicy")

    def _flow_to(self, alias: str) -> FlowConfig:
        return next(flow for flow in self._flows if flow.name.target == alias)

    def _at(self, flow: FlowConfig, setting: str, wrong: str, right: str) -> Problem:
        key, line = flow.places.get(setting, (setting, 0))
        return Problem(flow.name, str(ConfigError(self._config.file, line, key, wrong, right)), True)
