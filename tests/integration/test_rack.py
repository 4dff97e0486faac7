"""`client.rack` (KIP-392) on a cluster with racks: the brokers' request logs show which broker served the records."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deploy.local.cluster import EmbeddedCluster, start_clusters
from engine.core.events.events import LaneRefused, SourceGap
from engine.core.lane.pending_batch import Limits
from engine.flow.ports.ports import FetchOptions
from tests.harness.compare import assert_identical
from tests.harness.load import numbered, produce
from tests.harness.mirror import Mirror, Run
from tests.harness.served import LOG_REQUESTS, fetched_bytes

pytestmark = pytest.mark.integration

PARTITIONS = 6
NEAR = 2


@pytest.fixture
async def clusters(tmp_path: Path) -> AsyncIterator[tuple[EmbeddedCluster, EmbeddedCluster]]:
    """A source of three brokers, each in a rack of its own, and a target."""
    source = EmbeddedCluster(
        "source",
        tmp_path / "source",
        brokers=3,
        heap_mib=512,
        overrides={"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"},
        own={node_id: {"broker.rack": f"rack-{node_id}"} for node_id in (1, 2, 3)},
        log_levels=LOG_REQUESTS,
    )
    target = EmbeddedCluster("target", tmp_path / "target", heap_mib=512)
    await asyncio.to_thread(start_clusters, source, target)
    try:
        yield source, target
    finally:
        for cluster in (source, target):
            await asyncio.to_thread(cluster.stop)


async def fill(mirror: Mirror, first: int) -> None:
    """Append 500 records to every partition, on all replicas that are in sync."""
    for partition in range(PARTITIONS):
        await produce(mirror.source, "near", partition, numbered(500, first=first, size_bytes=200), acks="all")


def by_others(source: EmbeddedCluster) -> int:
    """Return the bytes that the other racks have served."""
    return sum(size for node, size in fetched_bytes(source, "test-racks").items() if node != NEAR)


def serving(run: Run) -> set[int]:
    """Return the brokers that the lanes fetch from."""
    return {driver.leaders.source_node for driver in run.copier.drivers.values()}


async def test_records_come_from_the_own_rack_and_from_leaders_while_it_is_gone(
    clusters: tuple[EmbeddedCluster, EmbeddedCluster],
) -> None:
    source, target = clusters
    # Merged batches have other sizes than what the brokers served.
    mirror = Mirror(source, target, "racks", fetch=FetchOptions(rack=f"rack-{NEAR}"), limits=Limits())
    await mirror.open()
    copied = await mirror.topic("near", PARTITIONS)
    await fill(mirror, 0)
    async with mirror.run() as run:
        await run.until_copied()
        await run.until(lambda: serving(run) == {NEAR}, "every lane reads from its rack")
        size = sum(lane.wire_bytes for lane in run.progress().lanes)
        assert size > 0
        # A broker logs a request a moment after it has answered it.
        await run.until(lambda: fetched_bytes(source, "test-racks")[NEAR] >= size, "the near one has served it all")
        served = fetched_bytes(source, "test-racks")
        assert (served[1], served[3]) == (0, 0), served

        await asyncio.to_thread(source.brokers[NEAR - 1].kill)
        await fill(mirror, 500)
        await run.until_copied(deadline_s=120.0)
        assert serving(run) <= {1, 3}
        more = sum(lane.wire_bytes for lane in run.progress().lanes) - size
        assert more > 0
        await run.until(lambda: by_others(source) >= more, "leaders have served the rest")

        # Back again: leaders name it once it is in sync.
        await asyncio.to_thread(source.restart, source.brokers[NEAR - 1])
        await run.until(lambda: serving(run) == {NEAR}, "every lane reads from its rack again", deadline_s=120.0)
        await fill(mirror, 1000)
        await run.until_copied(deadline_s=120.0)
        assert not run.told(SourceGap)
        assert not run.told(LaneRefused)
    assert await assert_identical(source, target, "near", copied) == 1500 * PARTITIONS
