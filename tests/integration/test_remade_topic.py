"""A running mirror whose source topic is created again: so is its copy, with more partitions; groups follow."""

from pathlib import Path

import pytest

from deploy.local.cluster import EmbeddedCluster
from tests.harness import groups as stock
from tests.harness.admin import create_topics, delete_topic, partition_count
from tests.harness.group_mirror import GroupMirror
from tests.harness.load import numbered, produce
from tests.harness.places import read_places
from tests.harness.ray_cluster import RayCluster

pytestmark = [pytest.mark.integration, pytest.mark.ray]

FLOW, TOPIC, COPIED, GROUP = "first->second", "remade-orders", "first.remade-orders", "remade-readers"
SETTINGS = {
    "raymirror.topic.recreated": "remade-.*@re-create",
    "refresh.topics.interval.seconds": "1",
    "groups": GROUP,
    "sync.group.offsets.enabled": "true",
}


async def test_the_copy_is_made_anew_and_groups_follow(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, shared_ray: RayCluster, tmp_path: Path
) -> None:
    clusters = {"first": source_cluster, "second": target_cluster}
    mirror = GroupMirror(clusters, {FLOW: TOPIC}, SETTINGS, shared_ray, tmp_path)

    async def make(partitions: int, each: int, first: int) -> None:
        await create_topics(source_cluster, {TOPIC: partitions})
        for partition in range(partitions):
            await produce(source_cluster, TOPIC, partition, numbered(each, first=first + 1000 * partition))

    async def made_anew() -> bool:
        """First: to read a topic that is deleted meanwhile would make it, and not as it should be."""
        return await partition_count(target_cluster, COPIED) == 3

    async def whole() -> bool:
        sent, found = await read_places(source_cluster, TOPIC), await read_places(target_cluster, COPIED)
        return {at: [one.record for one in rows] for at, rows in sent.items()} == {
            at: [one.record for one in rows] for at, rows in found.items()
        }

    await make(2, 50, first=0)
    try:
        mirror.start()
        await mirror.until_copied(FLOW, TOPIC, COPIED, 100)
        await stock.commit(source_cluster, GROUP, TOPIC, {0: 7, 1: 50})
        await mirror.until_equal(FLOW, GROUP, TOPIC, COPIED)
        await delete_topic(source_cluster, TOPIC)
        await make(3, 20, first=500)
        await mirror.until(made_anew, "the copy is another topic")
        await mirror.until(whole, "the new topic and nothing else in its copy")
        await stock.commit(source_cluster, GROUP, TOPIC, {0: 3, 1: 20, 2: 11})
        await mirror.until_equal(FLOW, GROUP, TOPIC, COPIED)
        assert mirror.live is not None
        mirror.live.until(
            lambda: mirror.live and mirror.live.told("raymirror deleted its copy first.remade-orders"), "told"
        )
        mirror.end()
    finally:
        mirror.close()
