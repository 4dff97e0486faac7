"""Consumer groups of brokers that know ConsumerGroupDescribe and keep groups by the classic protocol only.

Such are Kafka 3.7 to 3.9 at their defaults, and 4.x if `group.coordinator.rebalance.protocols` omits `consumer`. They
answer UNSUPPORTED_VERSION (35) for each group; other brokers answer GROUP_ID_NOT_FOUND (69).
"""

from pathlib import Path

import pytest

from deploy.local.cluster import EmbeddedCluster, start_clusters
from policies.groups import GroupState
from tests.harness import groups as stock
from tests.harness.keeping import POLLED, Sides, keeping, until, until_moved
from tests.harness.load import numbered, produce
from tests.harness.mirror import Mirror
from tests.harness.releases import classpath_of

pytestmark = [pytest.mark.integration, pytest.mark.full]
_CLASSIC = {"group.coordinator.rebalance.protocols": "classic"}


@pytest.mark.parametrize("release", ["3.9", "4.3"])
async def test_a_group_is_mirrored_between_brokers_without_the_newer_protocol(release: str, tmp_path: Path) -> None:
    """Found, translated, told as a checkpoint, committed; left alone while it has members on the target."""
    older = release != "4.3"
    classpath, overrides = (classpath_of(release), {}) if older else ("", _CLASSIC)
    source, target = (
        EmbeddedCluster(name, tmp_path / name, overrides=overrides, classpath=classpath, heap_mib=512)
        for name in ("source", "target")
    )
    start_clusters(source, target)
    try:
        mirror = Mirror(source, target, f"classic-{release.replace('.', '-')}")
        await mirror.open()
        topic = group = mirror.flow.source
        copied = await mirror.topic(topic, 2)
        for partition in range(2):
            await produce(mirror.source, topic, partition, numbered(100, first=1000 * partition))
        async with mirror.run() as run, keeping(mirror, POLLED) as keeper, Sides(mirror) as sides:
            await run.until_copied()
            await stock.commit(mirror.source, group, topic, {0: 37, 1: 100})
            assert (await until_moved(sides, group)) == {0: 37, 1: 100}
            told = await sides.checkpoints()
            assert await sides.stored(group) == {n: told[group, n][1] for n in range(2)}
            async with stock.joined(mirror.target, group, copied):
                assert (await sides.target.states([group])).found == {group: GroupState.ACTIVE}
                await stock.commit(mirror.source, group, topic, {0: 50})
                await until(lambda: keeper.report.active == 1, lambda: keeper.report)
            states = await sides.target.states([group, "nobody"])
            assert states.found == {group: GroupState.INACTIVE, "nobody": GroupState.ABSENT}
            assert await until_moved(sides, group) == {0: 50, 1: 100}
            assert keeper.report.failing == 0
    finally:
        for cluster in (source, target):
            cluster.stop()
