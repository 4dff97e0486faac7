"""MM2's integration test of two clusters that mirror each other, with the same meaning; MM2's own client is the judge.

The clusters are the test's own: a heartbeats topic has one name, and is copied whatever the filter.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from deploy.local.cluster import EmbeddedCluster, running_clusters
from engine.core.mm2.mm2_records import decode_heartbeat
from engine.kafka.admin.admin import describe_topic_configs
from tests.harness import groups as stock
from tests.harness.admin import create_topics
from tests.harness.group_mirror import GroupMirror, rises
from tests.harness.load import numbered, produce
from tests.harness.mirror import cluster_client
from tests.harness.places import next_at, read_places
from tests.harness.ray_cluster import RayCluster

pytestmark = [pytest.mark.integration, pytest.mark.ray]

TOPIC, LATER, OWN = "both-ways", ("both-ways-later-1", "both-ways-later-2"), ("primary", "backup")
PARTITIONS, EACH = 10, 10
CONFIGS = {"cleanup.policy": "compact", "retention.bytes": "1000", "delete.retention.ms": "1000"}
SETTINGS = {
    "groups": "both-ways-.*",
    "config.properties.exclude": r"delete\\.retention\\..*",
    "emit.heartbeats.enabled": "true",
    "heartbeats.topic.replication.factor": "1",
}


@pytest.fixture(scope="module")
def mirror(shared_ray: RayCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GroupMirror]:
    folder = tmp_path_factory.mktemp("both-ways")
    clusters = {alias: EmbeddedCluster(alias, folder / alias) for alias in OWN}
    with running_clusters(*clusters.values()):
        asyncio.run(fill(clusters))
        flows = {"primary->backup": f"{TOPIC}.*", "backup->primary": f"{TOPIC}.*"}
        made = GroupMirror(clusters, flows, SETTINGS, shared_ray, folder)
        try:
            made.start()
            yield made
        finally:
            made.close()


async def fill(clusters: dict[str, EmbeddedCluster]) -> None:
    """The same topic on both sides, other records in each; the configs to be copied on one."""
    for number, (alias, cluster) in enumerate(clusters.items()):
        await create_topics(cluster, {TOPIC: PARTITIONS}, configs=CONFIGS if alias == "primary" else None)
        for partition in range(PARTITIONS):
            await produce(cluster, TOPIC, partition, numbered(EACH, first=100_000 * number + 1000 * partition))


def copy_on(alias: str) -> tuple[str, str, str]:
    """Give the flow into a cluster, the cluster it comes from, and the name of the copy."""
    other = OWN[1 - OWN.index(alias)]
    return f"{other}->{alias}", other, f"{other}.{TOPIC}"


both = pytest.mark.parametrize("alias", ["backup", "primary"])


@both
async def test_every_record_is_on_both_sides_once(mirror: GroupMirror, alias: str) -> None:
    flow, other, copied = copy_on(alias)
    await mirror.until_copied(flow, TOPIC, copied, PARTITIONS * EACH)
    sent, found = await read_places(mirror.clusters[other], TOPIC), await read_places(mirror.clusters[alias], copied)
    own = await read_places(mirror.clusters[alias], TOPIC)
    for partition in range(PARTITIONS):
        assert [place.record for place in found[partition]] == [place.record for place in sent[partition]]
        assert len(own[partition]) == EACH


async def test_a_copy_has_its_topics_configs_but_for_those_excluded(mirror: GroupMirror) -> None:
    _, _, copied = copy_on("backup")
    client = cluster_client("configs", mirror.clusters["backup"].bootstrap_servers)
    await client.open()
    try:
        found = (await describe_topic_configs(client, [copied]))[copied]
    finally:
        await client.close()
    assert {name: found[name].value for name in CONFIGS} == {**CONFIGS, "delete.retention.ms": "86400000"}


@both
async def test_heartbeats_say_who_is_upstream_and_how_far(mirror: GroupMirror, java: Any, alias: str) -> None:
    _, other, _ = copy_on(alias)
    here = mirror.clusters[alias]

    async def beaten() -> bool:
        utils = java.org.apache.kafka.connect.mirror.RemoteClusterUtils
        return f"{other}.heartbeats" in set(utils.heartbeatTopics({"bootstrap.servers": here.bootstrap_servers}))

    await mirror.until(beaten, f"heartbeats of {other} are copied")
    utils = java.org.apache.kafka.connect.mirror.RemoteClusterUtils
    properties = {"bootstrap.servers": here.bootstrap_servers}
    assert other in set(utils.upstreamClusters(properties))
    assert utils.replicationHops(properties, other) == 1

    async def both_beat() -> bool:
        return all([(await read_places(here, topic)).get(0) for topic in ("heartbeats", f"{other}.heartbeats")])

    await mirror.until(both_beat, "heartbeats of its own and of the other")
    for topic in ("heartbeats", f"{other}.heartbeats"):
        key, value, _ = (await read_places(here, topic))[0][0].record
        beat = decode_heartbeat(key, value)
        assert {beat.source, beat.target} == set(OWN)


@both
async def test_a_group_fails_over_by_mm2s_client(mirror: GroupMirror, java: Any, alias: str) -> None:
    """Into one cluster and, the other way, into the other: each partition goes on at the very next record."""
    flow, other, copied = copy_on(alias)
    group, source, target = f"{TOPIC}-into-{alias}", mirror.clusters[other], mirror.clusters[alias]
    sent, found = await read_places(source, TOPIC), await read_places(target, copied)
    stand = {partition: sent[partition][partition].offset for partition in range(PARTITIONS)}
    await stock.commit(source, group, TOPIC, stand)

    async def told() -> bool:
        return {one.partition: one.source_offset for one in await mirror.checkpoints(flow, group, copied)} == stand

    await mirror.until(told, "checkpoints of all partitions")
    utils = java.org.apache.kafka.connect.mirror.RemoteClusterUtils
    answers = utils.translateOffsets(
        {"bootstrap.servers": target.bootstrap_servers}, other, group, java.java.time.Duration.ofSeconds(120)
    )
    offsets = {int(where.partition()): int(what.offset()) for where, what in answers.items()}
    assert {str(where.topic()) for where in answers} == {copied}
    for partition in range(PARTITIONS):
        place = next_at(found[partition], offsets[partition])
        assert place is not None
        assert place.record == sent[partition][partition].record
    await stock.commit(target, group, copied, offsets)
    left = sum(EACH - partition for partition in range(PARTITIONS))
    read = await stock.read_from(target, group, copied, left)
    assert len({(one.partition, one.value) for one in read}) == left
    assert rises(await mirror.assert_exact(flow, group, TOPIC, copied))


@both
async def test_topics_that_come_later_are_copied(mirror: GroupMirror, alias: str) -> None:
    flow, other, _ = copy_on(alias)
    later = LATER[OWN.index(alias)]
    await create_topics(mirror.clusters[other], {later: 2})
    await produce(mirror.clusters[other], later, 1, numbered(EACH))
    await mirror.until_copied(flow, later, f"{other}.{later}", EACH)
    found = await read_places(mirror.clusters[alias], f"{other}.{later}")
    assert [len(found[partition]) for partition in range(2)] == [0, EACH]
