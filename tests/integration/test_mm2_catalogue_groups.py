"""MM2's integration tests of groups, with the same meaning: one way, with synced offsets, with a restart in between.

One running mirror with two flows from the same cluster: `first` under the default names, `twin` under the source's own;
the tests are steps of its story and run in order.
"""

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from aiokafka.admin import NewPartitions

from deploy.local.cluster import EmbeddedCluster
from tests.conftest import Pair
from tests.harness import groups as stock
from tests.harness.admin import admin, create_topics, partition_count
from tests.harness.group_mirror import GroupMirror, rises
from tests.harness.load import numbered, produce, producer
from tests.harness.places import read_places
from tests.harness.ray_cluster import RayCluster

pytestmark = [pytest.mark.integration, pytest.mark.ray]

PARTITIONS, EACH, SPAN = 10, 10, 4
"""The last partition of each topic stays empty at first; a transaction has `SPAN` records."""


class Way(NamedTuple):
    """A flow and its topic; `transactional`: what the source's producer writes has markers between."""

    flow: str
    topic: str
    copied: str
    transactional: bool

    @property
    def group(self) -> str:
        """Name a group of this flow."""
        return f"{self.topic}-readers"


WAYS = (
    Way("first->second", "cat-renamed", "first.cat-renamed", transactional=False),
    Way("twin->second", "cat-same", "cat-same", transactional=True),
)
ways = pytest.mark.parametrize("way", WAYS, ids=["default names", "same names, transactions"])


@pytest.fixture(scope="module")
def story(
    cluster_pair: Pair, shared_ray: RayCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GroupMirror]:
    clusters = {"first": cluster_pair.source, "twin": cluster_pair.source, "second": cluster_pair.target}
    settings = {
        "groups": "cat-.*",
        "sync.group.offsets.enabled": "true",
        "offset.lag.max": "10",
        "twin->second.replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    }
    flows = {way.flow: f"{way.topic}.*" for way in WAYS}
    asyncio.run(fill(cluster_pair.source))
    mirror = GroupMirror(clusters, flows, settings, shared_ray, tmp_path_factory.mktemp("groups"))
    try:
        mirror.start()
        yield mirror
    finally:
        mirror.close()


async def fill(source: EmbeddedCluster) -> None:
    await create_topics(source, {way.topic: PARTITIONS for way in WAYS})
    for way in WAYS:
        for partition in range(PARTITIONS - 1):
            await append(source, way, partition, EACH)


async def append(
    source: EmbeddedCluster, way: Way, partition: int, count: int, first: int = 0, topic: str = ""
) -> None:
    """Append records in one go, or in transactions, each of which ends with a marker."""
    topic, records = topic or way.topic, numbered(count, first=first)
    if not way.transactional:
        await produce(source, topic, partition, records)
        return
    async with producer(source, transactional_id=f"{topic}-{partition}") as client:
        for at in range(0, count, SPAN):
            async with client.transaction():
                for one in records[at : at + SPAN]:
                    await client.send(topic, one.value, key=one.key, partition=partition)


async def consumes(story: GroupMirror, way: Way, group: str, topic: str, count: int) -> None:
    """Read so many records on the source as a member of the group, and commit behind them."""
    assert len(await stock.read_from(story.clusters["first"], group, topic, count)) == count


@ways
async def test_a_group_that_has_read_everything_reads_only_what_comes(story: GroupMirror, way: Way) -> None:
    """An empty partition included: its offset on the target is where the first record will be."""
    source, target, group = story.clusters["first"], story.clusters["second"], f"{way.group}-that-move"
    count = (PARTITIONS - 1) * EACH
    await story.until_copied(way.flow, way.topic, way.copied, count)
    await consumes(story, way, group, way.topic, count)
    await stock.commit(source, group, way.topic, {PARTITIONS - 1: 0})
    assert (await story.until_equal(way.flow, group, way.topic, way.copied)).keys() == set(range(PARTITIONS))
    for partition in range(PARTITIONS):
        await append(source, way, partition, 1, first=1000 + partition)
    await story.until_copied(way.flow, way.topic, way.copied, count + PARTITIONS)
    read = await stock.read_from(target, group, way.copied, PARTITIONS)
    assert sorted((one.partition, one.value.strip()) for one in read) == [
        (partition, b"v%d" % (1000 + partition)) for partition in range(PARTITIONS)
    ]
    assert rises(await story.assert_exact(way.flow, group, way.topic, way.copied))


@ways
async def test_a_topic_that_comes_later_and_its_new_partition(story: GroupMirror, way: Way) -> None:
    source, target = story.clusters["first"], story.clusters["second"]
    late, copied, group = f"{way.topic}-late", f"{way.copied}-late", f"{way.group}-of-late"
    await create_topics(source, {late: 2})
    await append(source, way, 0, EACH, topic=late)
    await story.until_copied(way.flow, late, copied, EACH)
    await consumes(story, way, group, late, EACH - 3)
    await story.until_equal(way.flow, group, late, copied)
    async with admin(source) as client:
        await client.create_partitions({late: NewPartitions(3)})

    async def grown() -> bool:
        return await partition_count(source, late) == await partition_count(target, copied) == 3

    await story.until(grown, f"{copied} has three partitions")
    await append(source, way, 2, EACH, topic=late)
    await story.until_copied(way.flow, late, copied, 2 * EACH)
    await consumes(story, way, group, late, EACH + 3)
    await story.until_equal(way.flow, group, late, copied)
    assert rises(await story.assert_exact(way.flow, group, late, copied))


@ways
async def test_a_group_far_behind_goes_on_and_then_back(story: GroupMirror, way: Way) -> None:
    """At every place, not only near those that were written down; its checkpoints go back only when it does."""
    source, group, partition = story.clusters["first"], f"{way.group}-that-walk", 0
    await append(source, way, partition, 40 * EACH, first=2000)
    sent = await read_places(source, way.topic)
    await story.until_copied(way.flow, way.topic, way.copied, sum(map(len, sent.values())))
    places = sent[partition]
    steps = [places[len(places) * share // 100].offset for share in (10, 30, 50, 70, 90, 10)]
    for offset in steps:
        await stock.commit(source, group, way.topic, {partition: offset})
        there = await story.until_equal(way.flow, group, way.topic, way.copied)
        assert there.keys() == {partition}
    told = await story.assert_exact(way.flow, group, way.topic, way.copied)
    walked = [
        one for one in told if one.source_offset in steps
    ]  # before the map tells of it, the end of the copy serves
    assert [one.source_offset for one in walked] == steps
    assert rises(told[:-1])
    assert walked[-1].target_offset == walked[0].target_offset


@ways
async def test_a_restart_of_everything_loses_no_place(story: GroupMirror, way: Way) -> None:
    source, target, group = story.clusters["first"], story.clusters["second"], f"{way.group}-that-stay"
    await consumes(story, way, group, way.topic, 5 * EACH)
    await story.until_equal(way.flow, group, way.topic, way.copied)
    story.end()
    for partition in range(PARTITIONS):
        await append(source, way, partition, EACH, first=9000)
    left = sum(map(len, (await read_places(source, way.topic)).values())) - 5 * EACH
    await consumes(story, way, group, way.topic, left)
    story.start()
    sent = await read_places(source, way.topic)
    # First: the end of a copy that is not whole would pass for the end of the source.
    await story.until_copied(way.flow, way.topic, way.copied, sum(map(len, sent.values())))
    await story.until_equal(way.flow, group, way.topic, way.copied)
    assert rises(await story.assert_exact(way.flow, group, way.topic, way.copied))
    there = await read_places(target, way.copied)
    for partition, places in sent.items():
        assert [place.record for place in places] == [place.record for place in there[partition]]


async def test_nothing_comes_back_to_the_source(story: GroupMirror) -> None:
    """And the target has the copies, no others."""
    stems = [way.topic for way in WAYS]
    async with admin(story.clusters["first"]) as client:
        here = {topic for topic in await client.list_topics() if any(stem in topic for stem in stems)}
    assert here == {topic for stem in stems for topic in (stem, f"{stem}-late")}
    async with admin(story.clusters["second"]) as client:
        there = {topic for topic in await client.list_topics() if any(stem in topic for stem in stems)}
    assert there == {topic for way in WAYS for topic in (way.copied, f"{way.copied}-late")}
