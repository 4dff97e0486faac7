"""`raymirror check`, and the refusals of `run` that only a real cluster can cause."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.demo.topics import topic_names
from deploy.local.cluster import EmbeddedCluster
from tests.harness.admin import create_topics

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def ask(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "PYTHONPATH": str(ROOT), "COLUMNS": "160"}
    env.pop("RAY_ADDRESS", None)
    command = [sys.executable, "-m", "actors", *words]
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=180, check=False)


def write(folder: Path, clusters: dict[str, EmbeddedCluster], *lines: str) -> str:
    path = folder / "mm2.properties"
    addresses = [f"{alias}.bootstrap.servers = {cluster.bootstrap_servers}" for alias, cluster in clusters.items()]
    settings = [f"clusters = {', '.join(clusters)}", *addresses, "replication.factor = 1"]
    settings.append("heartbeats.replication.enabled = false")  # others of the shared clusters have theirs
    path.write_text("\n".join([*settings, "offset.storage.replication.factor = 1", *lines, ""]))
    return str(path)


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith("warning:")]
    assert len(lines) == 1, done.stderr
    return lines[0]


def names(cluster: EmbeddedCluster) -> set[str]:
    return asyncio.run(topic_names(cluster.bootstrap_servers))


def test_it_tells_what_would_be_copied_and_changes_nothing(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    asyncio.run(create_topics(source_cluster, {"checked-a": 3, "checked-b": 1}))
    before = names(target_cluster)
    clusters = {"one": source_cluster, "two": target_cluster}
    topics, groups = "one->two.topics = checked-.*, checked-*", "one->two.groups = nobody-at-all"
    lines = ("one->two.enabled = true", topics, groups, "listeners = http://:8083")
    done = ask(tmp_path, "check", write(tmp_path, clusters, *lines))
    assert done.returncode == 0, done.stderr
    assert "'checked-*' matches no topic of cluster 'one'; did you mean checked-.*?" in done.stderr
    assert (
        "'nobody-at-all' matches no consumer group of cluster 'one'; if one appears later, it is mirrored"
        in done.stderr
    )
    assert "not needed here, and nothing is lost: listeners (" in done.stdout
    assert "2 topics, 4 partitions" in done.stdout
    assert "one.checked-a" in done.stdout
    assert "will be created" in done.stdout
    assert "transactional" not in done.stderr, "everything is granted"
    assert names(target_cluster) == before


def test_more_replicas_than_brokers(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    asyncio.run(create_topics(source_cluster, {"replicas-a": 1}))
    before = names(target_cluster)
    lines = ("one->two.enabled = true", "one->two.topics = replicas-a", "one->two.replication.factor = 2")
    line = refusal(ask(tmp_path, "run", write(tmp_path, {"one": source_cluster, "two": target_cluster}, *lines)))
    assert "one.replicas-a" in line
    assert "mm2.properties:9: one->two.replication.factor: 2 replicas" in line
    assert "Create" not in line, "not a word of ACLs"
    assert names(target_cluster) == before


def test_patterns_of_two_flows_that_meet_in_one_target_topic(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    for cluster in (source_cluster, target_cluster):
        asyncio.run(create_topics(cluster, {"meeting-a": 1}))
    before = names(target_cluster)
    # "three" is the same cluster as "two" by another name, which only the brokers tell
    clusters = {"one": source_cluster, "two": target_cluster, "three": target_cluster}
    flows = ("one->three.enabled = true", "two->three.enabled = true", "topics = meeting-.*")
    done = ask(tmp_path, "run", write(tmp_path, clusters, *flows, f"replication.policy.class = {IDENTITY}"))
    assert done.returncode == 2, done.stderr
    assert "'two' and 'three' lead to one cluster" in done.stderr
    assert "one->three and two->three would both write topic 'meeting-a'" in done.stderr
    assert names(target_cluster) == before


@pytest.fixture
def strict_cluster(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    """A cluster on which nobody may create a topic."""
    overrides = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with EmbeddedCluster("strict", tmp_path / "strict", overrides=overrides) as cluster:
        for who, operation in (("--allow-principal", "All"), ("--deny-principal", "Create")):
            cluster.tool(
                "org.apache.kafka.tools.AclCommand",
                *("--bootstrap-server", cluster.bootstrap_servers, "--add", who, "User:ANONYMOUS"),
                *("--operation", operation, "--cluster", "--topic", "*"),
            )
        yield cluster


def test_a_target_that_does_not_let_us_create_topics(
    source_cluster: EmbeddedCluster, strict_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    asyncio.run(create_topics(source_cluster, {"denied-a": 1}))
    clusters = {"one": source_cluster, "two": strict_cluster}
    line = refusal(ask(tmp_path, "run", write(tmp_path, clusters, "one->two.enabled = true", "topics = denied-a")))
    assert "two" in line
    assert "AuthorizationFailed" in line
    assert "Create" in line
    config = str(tmp_path / "mm2.properties")
    done = ask(tmp_path, "takeover", config, "--check")
    assert done.returncode == 1, done.stderr
    assert "does not let raymirror create topics" in done.stdout
    assert "AuthorizationFailed" in done.stdout
    assert "MM2's group 'one-mm2': has no members" in done.stdout
    done = ask(tmp_path, "takeover", config, "--check", "--json")
    (flow,) = json.loads(done.stdout)["flows"]
    assert (flow["ready"], flow["exact"], flow["writers"], flow["to_copy"]) == (False, True, {"none": 1}, 0)
    assert names(strict_cluster) == set()
