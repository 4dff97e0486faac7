"""Brokers that are killed, stopped and cut off while records are in flight."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from deploy.local.cluster import EmbeddedCluster, start_clusters
from deploy.local.proxy import Proxy
from engine.core.events.events import OwnershipLost, RecordRefused, SourceGap, TargetGap
from engine.core.lane.pending_batch import REMEMBERED, Limits
from tests.harness.compare import assert_identical
from tests.harness.load import numbered, pour, produce
from tests.harness.mirror import Mirror, Run

pytestmark = [pytest.mark.integration, pytest.mark.fault]

PARTITIONS = 4
PRODUCE = frozenset({0})
SLOW: dict[str, Any] = {"partition_fetch_bytes": 32 * 1024}
"""Small fetches: the copy lasts long enough for a fault in its middle."""


async def filled(mirror: Mirror, topic: str, count: int) -> str:
    """Open the mirror with one filled topic; return the name of its copy."""
    await mirror.open()
    copied = await mirror.topic(topic, PARTITIONS)
    await pour(mirror.source, topic, count, batch_bytes=8192)
    return copied


def copied_records(run: Run) -> int:
    return sum(one.records for one in run.progress().lanes)


async def calm(run: Run) -> None:
    """Everything copied, and nothing told that would stop a lane."""
    await run.until_copied(deadline_s=120.0)
    for kind in (TargetGap, SourceGap, RecordRefused, OwnershipLost):
        assert run.told(kind) == []


@pytest.mark.parametrize("how", ["kill", pytest.param("stop", marks=pytest.mark.full)])
@pytest.mark.parametrize("side", ["source", pytest.param("target", marks=pytest.mark.full)])
async def test_a_broker_goes_and_comes_back(
    pair: tuple[EmbeddedCluster, EmbeddedCluster], record_count: int, figures: dict[str, Any], side: str, how: str
) -> None:
    mirror = Mirror(*pair, alias=f"{side}-{how}", **SLOW)
    count = record_count // 4
    copied = await filled(mirror, f"{side}-{how}", count)
    cluster = pair[0] if side == "source" else pair[1]
    broker = cluster.brokers[0]
    async with mirror.run() as run:
        await run.until(lambda: copied_records(run) > count // 5, "a fifth is copied")
        at = copied_records(run)
        await asyncio.to_thread(broker.kill if how == "kill" else broker.stop)
        await asyncio.to_thread(cluster.restart, broker)
        await calm(run)
    assert at < count, "the fault came too late to matter"
    identical = await assert_identical(mirror.source, mirror.target, f"{side}-{how}", copied)
    assert identical == count
    figures[f"{side} broker, {how}"] = {"at_record": at, "identical_records": identical}


@asynccontextmanager
async def behind_proxy(folder: Path) -> AsyncIterator[tuple[EmbeddedCluster, EmbeddedCluster, Proxy]]:
    """A source, and a target that clients reach through a proxy only."""
    async with Proxy(("127.0.0.1", 9)) as proxy:
        advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
        source = EmbeddedCluster("source", folder / "source")
        target = EmbeddedCluster("target", folder / "target", overrides=advertised)
        proxy.target = ("127.0.0.1", target.brokers[0].port)
        await asyncio.to_thread(start_clusters, source, target)
        try:
            yield source, target, proxy
        finally:
            for cluster in (source, target):
                await asyncio.to_thread(cluster.stop)


@pytest.mark.parametrize(
    "how", ["stop", pytest.param("kill", marks=pytest.mark.full), pytest.param("cut", marks=pytest.mark.full)]
)
async def test_answers_of_several_appended_batches_of_a_lane_never_come(
    tmp_path: Path, figures: dict[str, Any], how: str
) -> None:
    """After a restart the broker remembers one batch per producer, not five: only its log can tell.

    Each lane has five in flight, unless the machine is slow: then a request has batches of fewer lanes. Five requests
    of four lanes have several batches of one in any case.
    """
    count = 40_000
    async with behind_proxy(tmp_path) as (source, target, proxy):
        five = Limits(max_in_flight=REMEMBERED)
        mirror = Mirror(
            source,
            target,
            "held",
            flush_s=3600.0,
            unsynced_s=3600.0,
            epoch_s=3600.0,
            flush_bytes=2**40,
            limits=five,
            **SLOW,
        )
        copied = await filled(mirror, "held", count)
        async with mirror.run() as run:
            await run.until(lambda: copied_records(run) > count // 5, "a fifth is copied")
            proxy.hold(PRODUCE)
            async with asyncio.timeout(180):
                await proxy.wait_held(5)
            await run.until(lambda: any(lane.in_flight > 1 for lane in run.progress().lanes), "several of a lane")
            lanes = run.progress().lanes
            if how == "cut":
                proxy.cut()
                proxy.release()
            else:
                broker = target.brokers[0]
                await asyncio.to_thread(broker.stop if how == "stop" else broker.kill)
                proxy.cut()
                proxy.release()
                await asyncio.to_thread(target.restart, broker)
            await calm(run)
        identical = await assert_identical(source, target, "held", copied)
        assert identical == count
        figures[f"answers held back, then {how}"] = {
            "batches_in_flight": [lane.in_flight for lane in lanes],
            "identical_records": identical,
        }


@pytest.mark.full
async def test_three_brokers_lose_one(tmp_path: Path, record_count: int, figures: dict[str, Any]) -> None:
    source = EmbeddedCluster("source", tmp_path / "source")
    target = EmbeddedCluster("target", tmp_path / "target", brokers=3, heap_mib=512)
    await asyncio.to_thread(start_clusters, source, target)
    try:
        count = record_count // 4
        mirror = Mirror(source, target, "three", **SLOW)
        copied = await filled(mirror, "three", count)
        async with mirror.run() as run:
            await run.until(lambda: copied_records(run) > count // 5, "a fifth is copied")
            lost = target.brokers[1]
            await asyncio.to_thread(lost.kill)
            await calm(run)
            await produce(source, "three", 0, numbered(1000))
            await asyncio.to_thread(target.restart, lost)
            await produce(source, "three", 1, numbered(1000))
            await calm(run)
        identical = await assert_identical(source, target, "three", copied)
        assert identical == count + 2000
        figures["one of three target brokers killed"] = {"identical_records": identical}
    finally:
        for cluster in (source, target):
            await asyncio.to_thread(cluster.stop)
