"""A right that is removed from a running mirror and given back: the lane waits, reports it once, and continues."""

import asyncio

import pytest

from deploy.local.cluster import EmbeddedCluster
from engine.core.events.events import AccessDenied, LaneReleased, Resumed
from tests.harness.compare import assert_identical
from tests.harness.load import numbered, produce
from tests.harness.mirror import Mirror, Run

pytestmark = pytest.mark.integration

_ACLS = "org.apache.kafka.tools.AclCommand"


async def deny(cluster: EmbeddedCluster, topic: str, *, action: str, operation: str = "Read") -> None:
    """Take a right on a topic away (`--add` a denial), or give it back (`--remove` it)."""
    words = (action, "--force", "--deny-principal", "User:ANONYMOUS", "--operation", operation, "--topic", topic)
    await asyncio.to_thread(cluster.tool, _ACLS, "--bootstrap-server", cluster.bootstrap_servers, *words)


async def until_lapsed(run: Run, topic: str) -> AccessDenied:
    """Wait until the lane of a topic has lost a right; it must not have stopped."""
    await run.until(lambda: run.told(AccessDenied, topic) or run.lane(topic).state == "failed", "lapsed or failed")
    assert run.lane(topic).state != "failed", run.describe()
    return run.told(AccessDenied, topic)[0]


async def test_a_right_to_read_that_lapses_stops_nothing_for_good(guarded_cluster: EmbeddedCluster) -> None:
    """Both sides are one cluster: the source's topic first, then the copy's, which a new owner has to read."""
    mirror = Mirror(guarded_cluster, guarded_cluster, "lapsing", flush_s=1000.0, unsynced_s=1000.0, epoch_s=1000.0)
    await mirror.open()
    copied = await mirror.topic("lapse")
    await mirror.topic("beside")
    async with mirror.run(drain=False) as run:
        for topic in ("lapse", "beside"):
            await produce(guarded_cluster, topic, 0, numbered(100))
        await run.until_copied()
        await deny(guarded_cluster, "lapse", action="--add")
        for topic in ("lapse", "beside"):
            await produce(guarded_cluster, topic, 0, numbered(100, first=100))
        lapsed = await until_lapsed(run, "lapse")
        assert "TopicAuthorizationFailed" in lapsed.text()
        assert "Read" in lapsed.text()
        await run.until_copied("beside")
        await deny(guarded_cluster, "lapse", action="--remove")
        await run.until_copied()  # which may be so already: brokers hear of a denial a moment later
        await run.until_told(LaneReleased, "lapse")
        assert len(run.told(AccessDenied)) == len(run.told(LaneReleased)) == 1
    await deny(guarded_cluster, copied, action="--add")
    async with mirror.run() as run:
        assert "TopicAuthorizationFailed" in (await until_lapsed(run, "lapse")).text()
        await run.until_copied("beside")
        await deny(guarded_cluster, copied, action="--remove")
        await run.until_copied()  # which may be so already: brokers hear of a denial a moment later
        await run.until_told(LaneReleased, "lapse")
        assert len(run.told(AccessDenied)) == len(run.told(LaneReleased)) == 1
        resumed = {one.lane.topic: one.tail_records for one in run.told(Resumed)}
        assert resumed == {"lapse": 200, "beside": 200}
    assert await assert_identical(guarded_cluster, guarded_cluster, "lapse", copied) == 200


async def test_a_right_to_write_positions_that_lapses_stops_nothing_for_good(guarded_cluster: EmbeddedCluster) -> None:
    """What needs no position is copied meanwhile, and the position goes when the right is given back."""
    mirror = Mirror(guarded_cluster, guarded_cluster, "unwritten", flush_s=0.2, unsynced_s=0.2)
    await mirror.open()
    copied = await mirror.topic("unwritten")
    async with mirror.run() as run:
        await produce(guarded_cluster, "unwritten", 0, numbered(100))
        await run.until_copied()
        await deny(guarded_cluster, mirror.positions_topic, action="--add", operation="Write")
        await produce(guarded_cluster, "unwritten", 0, numbered(100, first=100))
        lapsed = await until_lapsed(run, "unwritten")
        assert f"grant Write on topic {mirror.positions_topic}" in lapsed.text()
        await produce(guarded_cluster, "unwritten", 0, numbered(100, first=200))
        await run.until_copied()
        await deny(guarded_cluster, mirror.positions_topic, action="--remove", operation="Write")
        await run.until_told(LaneReleased, "unwritten")
        assert len(run.told(AccessDenied)) == len(run.told(LaneReleased)) == 1
    async with mirror.run() as run:
        await produce(guarded_cluster, "unwritten", 0, numbered(100, first=300))
        await run.until_copied()
        assert [one.tail_records for one in run.told(Resumed)] == [0]
    assert await assert_identical(guarded_cluster, guarded_cluster, "unwritten", copied) == 400
