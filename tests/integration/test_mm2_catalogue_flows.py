"""MM2's integration tests of single settings, with the same meaning: each is a flow of one running mirror.

`bare` writes no offset syncs, `told` writes them on the target, `late` begins at the end of its topics. The target has
an alias of characters that no topic may have.
"""

import asyncio
from collections.abc import Iterator

import pytest

from tests.conftest import Pair
from tests.harness import groups as stock
from tests.harness.admin import admin, create_topics
from tests.harness.group_mirror import GroupMirror, rises
from tests.harness.load import numbered, produce
from tests.harness.places import read_places
from tests.harness.ray_cluster import RayCluster

pytestmark = [pytest.mark.integration, pytest.mark.ray]

TARGET = "far_!@(~&%)"
SOURCES = ("bare", "told", "late")
EACH = 10
GROUP = "single-readers"


def topic_of(alias: str) -> str:
    return f"single-{alias}"


@pytest.fixture(scope="module")
def mirror(
    cluster_pair: Pair, shared_ray: RayCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GroupMirror]:
    clusters = dict.fromkeys(SOURCES, cluster_pair.source) | {TARGET: cluster_pair.target}
    settings = {
        "groups": f"{GROUP}.*",
        "sync.group.offsets.enabled": "true",
        f"bare->{TARGET}.emit.offset-syncs.enabled": "false",
        # Without syncs a map is as new as the positions are.
        f"{TARGET}.offset.flush.interval.ms": "1000",
        f"told->{TARGET}.offset-syncs.topic.location": "target",
        f"late->{TARGET}.offset-syncs.topic.location": "target",
        "late.consumer.auto.offset.reset": "latest",
    }
    asyncio.run(fill(cluster_pair))
    flows = {f"{alias}->{TARGET}": f"{topic_of(alias)}.*" for alias in SOURCES}
    made = GroupMirror(clusters, flows, settings, shared_ray, tmp_path_factory.mktemp("single"))
    try:
        made.start()
        yield made
    finally:
        made.close()


async def fill(pair: Pair) -> None:
    await create_topics(pair.source, {topic_of(alias): 2 for alias in SOURCES})
    for alias in SOURCES:
        for partition in range(2):
            await produce(pair.source, topic_of(alias), partition, numbered(EACH, first=100 * partition))


async def topics(mirror: GroupMirror, alias: str) -> set[str]:
    async with admin(mirror.clusters[alias]) as client:
        return set(await client.list_topics())


@pytest.mark.parametrize("alias", ["bare", "told"])
async def test_records_and_groups_are_mirrored_wherever_syncs_are(mirror: GroupMirror, alias: str) -> None:
    """Without offset syncs too: ours come from the exact map, which MM2 has not."""
    flow, topic, copied = f"{alias}->{TARGET}", topic_of(alias), f"{alias}.{topic_of(alias)}"
    await mirror.until_copied(flow, topic, copied, 2 * EACH)
    await stock.commit(mirror.clusters[alias], f"{GROUP}-{alias}", topic, {0: 3, 1: EACH})
    await mirror.until_equal(flow, f"{GROUP}-{alias}", topic, copied)
    assert rises(await mirror.assert_exact(flow, f"{GROUP}-{alias}", topic, copied))


async def test_offset_syncs_are_where_they_are_asked_for_and_nowhere_else(mirror: GroupMirror) -> None:
    async def there() -> bool:
        return bool((await read_places(mirror.clusters[TARGET], "mm2-offset-syncs.told.internal")).get(0))

    await mirror.until(there, "offset syncs of `told` on the target")
    here, far = await topics(mirror, "told"), await topics(mirror, TARGET)
    assert not [topic for topic in here if "offset-syncs" in topic and (TARGET in topic or "told" in topic)]
    assert not [topic for topic in far if "offset-syncs" in topic and ("bare" in topic or TARGET in topic)]


async def test_from_latest_only_what_comes_is_copied(mirror: GroupMirror) -> None:
    flow, topic, copied = f"late->{TARGET}", topic_of("late"), f"late.{topic_of('late')}"
    live = mirror.live
    assert live is not None

    def begun() -> bool:
        found = live.flow(flow)
        return bool(found["lanes"] == 2 and found["lane_states"] == {"copying": 2} and not found["unknown_lanes"])

    await asyncio.to_thread(live.until, begun, "both partitions have their place at the end")
    for partition in range(2):
        await produce(mirror.clusters["late"], topic, partition, numbered(EACH, first=500 + 100 * partition))
    await mirror.until_copied(flow, topic, copied, 2 * EACH)
    found = await read_places(mirror.clusters[TARGET], copied)
    for partition, places in found.items():
        values = [(place.record[1] or b"").strip() for place in places]
        assert values == [b"v%d" % (500 + 100 * partition + number) for number in range(EACH)]
