"""Aliases of a configuration that lead to one cluster: what is refused, at which line, and what is only a warning."""

from uuid import UUID

import pytest

from engine.base.errors import SameCluster
from engine.checks.shared_clusters import SharedClusters
from engine.config.settings import MirrorConfig
from engine.kafka.admin.sameness import within_one_cluster
from engine.kafka.client.metadata import BrokerAddress, Metadata, PartitionMeta, TopicMeta
from tests.unit.engine.config_files import BASE, flow, mirror

THREE = BASE.replace("clusters = A, B", "clusters = A, B, C") + "C.bootstrap.servers = c1:9092\n"


def metadata(host: str, cluster_id: str = "x", topic_id: int = 0) -> Metadata:
    topics = {"t": TopicMeta(0, UUID(int=topic_id), False, {0: PartitionMeta(1, 0, (1,))})}
    return Metadata(cluster_id, 1, {1: BrokerAddress(host, 9092, "")}, topics if topic_id else {})


def shared(config: MirrorConfig, *topics: str, **hosts: str) -> tuple[list[str], list[str]]:
    """Return problems and doubts, each source having these topics; aliases on one host lead to one cluster."""
    found = {alias: metadata(host, f"id of {host}") for alias, host in hosts.items()}
    clusters = SharedClusters(config, config.flows, found)
    copies = {
        one.name: {topic: one.selection.target_topic(topic) for topic in topics if one.selection.wants(topic)}
        for one in config.flows
    }
    problems = list(clusters.problems(copies))
    assert all(problem.stops for problem in problems)
    return [one.text for one in problems], [doubt for one in config.flows for doubt in clusters.doubts(one.name)]


def test_clusters_that_differ_are_no_problem() -> None:
    assert shared(mirror(), "t", A="one", B="two") == ([], [])


def test_both_aliases_of_a_flow_are_one_cluster() -> None:
    (problem,), doubts = shared(mirror("topics = t\n"), "t", A="one", B="one")
    assert problem.startswith("mm2.properties:3: B.bootstrap.servers: 'A' and 'B' lead to one cluster")
    assert "set A->B.raymirror.same.cluster = allow" in problem
    assert doubts == []


def test_one_cluster_is_known_over_a_third_alias() -> None:
    """Each pair by itself need not show it: A and B have no broker in common, and both share one with C."""
    config = mirror("C->B.enabled = true\n", THREE)
    brokers = {"A": ("one",), "B": ("two",), "C": ("one", "two")}
    found = {
        alias: Metadata("", 1, {number: BrokerAddress(host, 9092, "") for number, host in enumerate(hosts)}, {})
        for alias, hosts in brokers.items()
    }
    clusters = SharedClusters(config, config.flows, found)
    first, *_ = clusters.problems({one.name: {} for one in config.flows})
    assert "'A' and 'B' lead to one cluster: each leads to the same cluster as a third alias" in first.text


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (
            "topics = .*t\nreplication.policy.class = IdentityReplicationPolicy\nemit.heartbeats.enabled = false\n",
            "topic 't' would be copied to 't', and so on; use DefaultReplicationPolicy within one cluster",
        ),
        ("topics = .*t\nemit.heartbeats.enabled = false\n", "A->B.topics.exclude = A\\\\..*"),
        ("topics = t\n", "'A.heartbeats' would be copied to 'A.A.heartbeats', and so on; set A->B.heartbeats.repl"),
        ("topics = t\nheartbeats.replication.enabled = false\n", ""),
    ],
)
def test_a_flow_within_one_cluster_must_not_feed_itself(lines: str, says: str) -> None:
    problems, _ = shared(mirror(f"A->B.raymirror.same.cluster = allow\n{lines}"), "t", A="one", B="one")
    assert [says in problem for problem in problems] == [True] * bool(says)
    assert all(problem.startswith("mm2.properties:6: topics: within one cluster") for problem in problems)


def test_a_way_back_under_another_alias_and_sources_that_are_one() -> None:
    config = mirror("B->C.enabled = true\ntopics = .*t\n", THREE)
    (problem,), doubts = shared(config, "t", A="one", B="two", C="one")
    assert problem.startswith("mm2.properties:5: C.bootstrap.servers: 'A' and 'C' lead to one cluster, so topic 't'")
    assert "come back there: A -> B -> C; write 'A' instead of 'C' in every flow" in problem
    assert doubts == ["'A' and 'C' lead to one cluster: both have a broker at one:9092; one alias for it is enough"] * 2


def test_flows_that_go_round_and_flows_that_meet_on_one_cluster() -> None:
    identity = "replication.policy.class = IdentityReplicationPolicy\n"
    config = mirror(f"B->A.enabled = true\ntopics = [r-t]\n{identity}", THREE)
    (problem,), _ = shared(config, "t", A="one", B="two")
    assert "topic 't' would be copied A -> B -> A in an endless loop; use Default" in problem
    config = mirror("A->C.enabled = true\ntopics = t, u\n", THREE)
    (problem,), _ = shared(config, "t", "u", A="one", B="two", C="two")
    assert "A->B and A->C would both write topic 'A.t' on cluster 'C'" in problem


def test_one_cluster_id_alone_is_said_and_no_more() -> None:
    config = mirror()
    clusters = SharedClusters(config, config.flows, {"A": metadata("one"), "B": metadata("two")})
    assert list(clusters.problems({config.flows[0].name: {}})) == []
    (doubt,) = clusters.doubts(config.flows[0].name)
    assert "'A' and 'B' may lead to one cluster: both report cluster id x" in doubt
    assert "check A.bootstrap.servers and B.bootstrap.servers" in doubt


def test_ids_of_topics_are_ignored_where_disks_were_copied_and_addresses_never() -> None:
    ids = metadata("one", topic_id=7), metadata("two", topic_id=7)
    for rule, refused in (("refuse", True), ("ignore", False)):
        config = mirror(f"raymirror.same.cluster = {rule}\n")
        clusters = SharedClusters(config, config.flows, dict(zip("AB", ids, strict=True)))
        assert bool(list(clusters.problems({config.flows[0].name: {}}))) is refused
        assert list(clusters.doubts(config.flows[0].name)) == []
    assert within_one_cluster(flow("raymirror.same.cluster = ignore\n"), *ids) is False
    assert within_one_cluster(flow("raymirror.same.cluster = allow\n"), *ids) is True
    for rule in ("refuse", "ignore"):
        with pytest.raises(SameCluster, match="both have a broker at one:9092"):
            within_one_cluster(flow(f"raymirror.same.cluster = {rule}\n"), ids[0], ids[0])
