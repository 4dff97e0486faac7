"""Refuses a flow whose aliases lead to one cluster: its topics would be copied onto or beside themselves."""

from collections.abc import Iterable

from engine.base.errors import SameCluster
from engine.config.settings import FlowConfig
from engine.core.identity.same_cluster import ClusterFacts, Sameness, SamenessFinding, TopicFacts, judge
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.metadata import Metadata, TopicMeta
from policies.shared_clusters import OneCluster


def facts_of(metadata: Metadata, names: Iterable[str] | None = None) -> ClusterFacts:
    """Return the facts that distinguish clusters, of all topics or of the existing topics in `names`."""
    return ClusterFacts(
        cluster_id=metadata.cluster_id,
        addresses=frozenset((broker.host.lower(), broker.port) for broker in metadata.brokers.values()),
        topics={name: _topic(metadata.topics[name]) for name in (metadata.topics if names is None else names)},
    )


def _topic(meta: TopicMeta) -> TopicFacts:
    return TopicFacts(meta.topic_id, {number: one.leader_epoch for number, one in meta.partitions.items()})


def within_one_cluster(flow: FlowConfig, source: Metadata, target: Metadata) -> bool:
    """Return whether both aliases lead to one cluster. Raises SameCluster if they do and the flow does not allow it."""
    # Only topics on both sides prove anything. A discovery round asks for all source topics and for two of the target.
    both = source.topics.keys() & target.topics.keys()
    verdict = judge(facts_of(source, both), facts_of(target, both))
    if not is_one(flow, verdict):
        return False
    if flow.same_cluster is not OneCluster.ALLOW:
        raise SameCluster(str(flow.name), flow.name.source, flow.name.target, verdict.why)
    return True


async def refuse_one_cluster(flow: FlowConfig, source: ClusterClient, target: ClusterClient) -> bool:
    """Compare clusters by all of their topics; return the same as `within_one_cluster`.

    Raises SameCluster, ConnectionLost, BrokerUnreachable.
    """
    return within_one_cluster(flow, await source.metadata(None), await target.metadata(None))


def is_one(flow: FlowConfig, verdict: SamenessFinding) -> bool:
    """Return whether a flow treats its clusters as one; with `ignore`, only equal addresses count, not ids."""
    ignored = flow.same_cluster is OneCluster.IGNORE and not verdict.by_address
    return verdict.sameness is Sameness.ONE and not ignored
