"""Faults of a copy over a distance: many more appends in flight than a broker remembers, and a partition in ranges."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from deploy.local.cluster import EmbeddedCluster, start_clusters
from deploy.local.proxy import Proxy
from engine.core.events.events import OwnershipLost, RecordRefused, SourceGap, TargetGap
from engine.core.lane.pending_batch import REMEMBERED
from tests.harness.compare import assert_identical
from tests.harness.load import pour
from tests.harness.mirror import Mirror, Run

pytestmark = [pytest.mark.integration, pytest.mark.fault]

PRODUCE = frozenset({0})
HALF_TRIP_S = 0.025


class Far:
    """Two clusters that are reached through proxies: `sides` by name."""

    def __init__(self, clusters: dict[str, EmbeddedCluster], proxies: dict[str, Proxy], far: tuple[str, ...]) -> None:
        self.clusters, self.proxies, self._far = clusters, proxies, far

    def depart(self) -> None:
        """Delay all requests and answers from now on; before, the clusters are filled at full speed."""
        for side in self._far:
            self.proxies[side].request_delay_s = self.proxies[side].response_delay_s = HALF_TRIP_S

    async def fault(self, how: str, side: str) -> None:
        """Cut all connections of a side, or kill its broker and start it again."""
        cluster, proxy = self.clusters[side], self.proxies[side]
        if how == "cut":
            return proxy.cut()
        await asyncio.to_thread(cluster.brokers[0].kill)
        proxy.cut()
        return await asyncio.to_thread(cluster.restart, cluster.brokers[0])


@asynccontextmanager
async def far_apart(folder: Path, *far: str) -> AsyncIterator[Far]:
    """Start two clusters behind proxies; once departed, the sides named are half of 50 ms away, each way."""
    async with Proxy(("127.0.0.1", 9)) as before, Proxy(("127.0.0.1", 9)) as behind:
        proxies = {"source": before, "target": behind}
        clusters = {
            side: EmbeddedCluster(
                side, folder / side, overrides={"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
            )
            for side, proxy in proxies.items()
        }
        for side, proxy in proxies.items():
            proxy.target = ("127.0.0.1", clusters[side].brokers[0].port)
        await asyncio.to_thread(start_clusters, *clusters.values())
        try:
            yield Far(clusters, proxies, far)
        finally:
            for cluster in clusters.values():
                await asyncio.to_thread(cluster.stop)


async def filled(far: Far, topic: str, count: int, partitions: int = 1) -> tuple[Mirror, str]:
    """Open a mirror with one filled topic, and depart; return the mirror, and the name of the copy."""
    mirror = Mirror(far.clusters["source"], far.clusters["target"], topic)
    await mirror.open()
    copied = await mirror.topic(topic, partitions)
    await pour(mirror.source, topic, count, size_bytes=1000, batch_bytes=16_384)
    far.depart()
    return mirror, copied


def copied_records(run: Run) -> int:
    return sum(one.records for one in run.progress().lanes)


def in_flight(run: Run) -> int:
    return max((one.in_flight for one in run.progress().lanes), default=0)


async def calm(run: Run) -> None:
    """Everything copied, and nothing told that would stop a lane."""
    await run.until_copied(deadline_s=180.0)
    for kind in (TargetGap, SourceGap, RecordRefused, OwnershipLost):
        assert run.told(kind) == []


@pytest.mark.parametrize("how", ["cut", pytest.param("kill", marks=pytest.mark.full)])
async def test_many_appends_in_flight_are_lost_and_the_log_says_which_were_appended(
    tmp_path: Path, figures: dict[str, Any], how: str
) -> None:
    count = 60_000
    async with far_apart(tmp_path, "target") as far:
        mirror, copied = await filled(far, "wide", count)
        async with mirror.run() as run:
            await run.until(lambda: in_flight(run) > 4 * REMEMBERED, "a window that no broker remembers")
            far.proxies["target"].hold(PRODUCE)
            async with asyncio.timeout(180):
                await far.proxies["target"].wait_held(2 * REMEMBERED)
            at, window = copied_records(run), in_flight(run)
            assert window > 2 * REMEMBERED
            await far.fault(how, "target")
            far.proxies["target"].release()
            await calm(run)
        assert at < count, "the fault came too late to matter"
        assert await assert_identical(mirror.source, mirror.target, "wide", copied) == count
        figures[f"wide window, {how}"] = {"in_flight": window, "at_record": at}


@pytest.mark.parametrize("how", ["cut", pytest.param("kill", marks=pytest.mark.full)])
async def test_a_partition_that_is_read_in_ranges_loses_its_connections(
    tmp_path: Path, figures: dict[str, Any], how: str
) -> None:
    count = 60_000
    async with far_apart(tmp_path, "source") as far:
        mirror, copied = await filled(far, "ranges", count)
        proxy = far.proxies["source"]
        async with mirror.run() as run:
            few = proxy.connections
            await run.until(lambda: proxy.connections > few + 6, "more connections than one fetch needs")
            at = copied_records(run)
            await far.fault(how, "source")
            await calm(run)
        assert at < count, "the fault came too late to matter"
        assert await assert_identical(mirror.source, mirror.target, "ranges", copied) == count
        figures[f"ranges, {how}"] = {"at_record": at}


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4))
async def test_random_faults_of_both_sides_over_a_distance(tmp_path: Path, figures: dict[str, Any], seed: int) -> None:
    random, count, done = Random(seed), 240_000, []
    async with far_apart(tmp_path, "source", "target") as far:
        mirror, copied = await filled(far, "storm", count, partitions=2)
        async with mirror.run() as run:
            while (at := copied_records(run)) < 0.8 * count:
                await run.until(lambda at=at: copied_records(run) > at + count // 20, "some more is copied")  # type: ignore[misc]
                how, side = random.choice(("cut", "cut", "kill")), random.choice(("source", "target"))
                done.append((how, side, in_flight(run)))
                await far.fault(how, side)
            await calm(run)
        assert await assert_identical(mirror.source, mirror.target, "storm", copied) == count
        figures[f"storm {seed}"] = {"faults": done}
    assert len(done) > 5
