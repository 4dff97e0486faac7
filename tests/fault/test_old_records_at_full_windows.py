"""Records of two days ago between young ones, replicas that flap, producers that expire, and a full window.

A target broker forgets a producer whose last batch is older than a day, at its next expiry check: here ten milliseconds
later. It then takes a batch with any sequence, so a batch that is sent again blindly would be there twice, and one that
overtakes a refused one would leave a hole. Meanwhile leaders and followers are stopped for longer than their session,
while many young batches are in flight, or while old ones are.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from bench.recovery.fronted import FrontedCluster
from deploy.local.broker import Broker
from deploy.local.cluster import EmbeddedCluster, start_clusters
from engine.core.events.events import OwnershipLost, RecordRefused, SourceGap, TargetGap
from engine.core.lane.pending_batch import REMEMBERED, Limits
from tests.harness.compare import assert_identical
from tests.harness.load import producer
from tests.harness.mirror import Mirror, Run
from tests.harness.replicas import distant_cluster, stopped, until_in_sync

pytestmark = [pytest.mark.integration, pytest.mark.fault, pytest.mark.full]

EXPIRING = {"producer.id.expiration.check.interval.ms": "10"}
"""The age is Kafka's default, a day."""
TWO_DAYS_MS = 2 * 86_400_000
TOPIC, PARTITIONS = "old", 2
AHEAD, YOUNG, OLD = 6, 300, 40
"""Each partition gets so many blocks while the copy is paused, of young batches and then of old ones."""
RECORDS = 8
"""Of one batch."""
FLAPS = 6
FOLLOWER_S, LEADER_S = 2.5, 4.5
"""Longer than it takes to be out of sync, and longer than a session."""
DEADLINE_S = 240.0
WIDE = 4 * REMEMBERED


@asynccontextmanager
async def clusters(folder: Path) -> AsyncIterator[tuple[EmbeddedCluster, FrontedCluster]]:
    """A source next to the mirror, and a target of three brokers 50 ms away."""
    source = EmbeddedCluster("source", folder / "source", heap_mib=512)
    target = distant_cluster("target", folder / "target", EXPIRING)
    await asyncio.to_thread(start_clusters, source, target)
    try:
        yield source, target
    finally:
        for cluster in (source, target):
            await asyncio.to_thread(cluster.stop)


class Writer:
    """Appends blocks to each partition."""

    def __init__(self, client: AIOKafkaProducer) -> None:
        self._client = client
        self._now_ms = int(time.time() * 1000)
        self._batches = 0
        """Written to each partition."""

    @property
    def records(self) -> int:
        """How many records each partition has."""
        return self._batches * RECORDS

    async def block(self) -> None:
        """Append a block to each partition: young batches, then old ones."""
        first, self._batches = self._batches, self._batches + YOUNG + OLD
        await asyncio.gather(*(self._fill(partition, first) for partition in range(PARTITIONS)))
        await self._client.flush()

    async def _fill(self, partition: int, first: int) -> None:
        for number in range(first, first + YOUNG + OLD):
            at_ms = self._now_ms if number - first < YOUNG else self._now_ms - TWO_DAYS_MS
            batch = self._client.create_batch()
            for place in range(RECORDS):
                value = (b"%d " % (number * RECORDS + place)).ljust(400, b".")
                assert batch.append(key=None, value=value, timestamp=at_ms) is not None
            await self._client.send_batch(batch, TOPIC, partition=partition)


class Windows:
    """Samples the appends in flight of the widest lane while the lanes copy."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.young: list[int] = []
        self.old: list[int] = []

    def look(self) -> None:
        """Take a sample of each lane, by the age of its newest batch in flight."""
        for driver in self._run.copier.drivers.values():
            batches = driver.lane.pieces.in_flight
            if batches:
                (self.old if is_old(batches[-1].max_timestamp) else self.young).append(len(batches))

    async def follow(self) -> None:
        """Sample until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(0.02)


def is_old(timestamp_ms: int) -> bool:
    return timestamp_ms < time.time() * 1000 - TWO_DAYS_MS / 2


def window(run: Run) -> int:
    return max(driver.lane.in_flight for driver in run.copier.drivers.values())


def has_old_in_flight(run: Run) -> bool:
    return any(
        is_old(batch.max_timestamp) for driver in run.copier.drivers.values() for batch in driver.lane.pieces.in_flight
    )


MOMENTS: tuple[tuple[str, Callable[[Run], bool]], ...] = (
    ("a full window", lambda run: window(run) > WIDE),
    ("old batches", has_old_in_flight),
)


def leader_of(run: Run, target: FrontedCluster) -> Broker:
    """Return the broker that leads some lane's copy, as far as the mirror knows."""
    nodes = [driver.leaders.target.node for driver in run.copier.drivers.values() if driver.leaders.target.node > 0]
    return target.brokers[(nodes or [1])[0] - 1]


async def flap(how: str, run: Run, target: FrontedCluster) -> None:
    """Stop a follower, a leader, or a leader that waits for a follower, for a while."""
    leader = leader_of(run, target)
    follower = next(one for one in target.brokers if one is not leader)
    if how != "leader":
        with stopped(follower):
            await asyncio.sleep(FOLLOWER_S if how == "follower" else FOLLOWER_S / 4)
    if how != "follower":
        with stopped(leader):
            await asyncio.sleep(LEADER_S)


@pytest.mark.parametrize("seed", range(2))
async def test_two_days_old_records_with_flapping_replicas_and_expiry_checks(
    tmp_path: Path, figures: dict[str, Any], seed: int
) -> None:
    random, done = Random(seed), []
    async with clusters(tmp_path) as (source, target):
        # Without merging: merged, what waits makes a window of a few large batches.
        mirror = Mirror(source, target, "flapping", limits=Limits())
        mirror.target_servers = target.mirror_servers
        await mirror.open()
        forever = {"retention.ms": "-1"}
        copied = await mirror.topic(
            TOPIC, PARTITIONS, on_source=forever, on_target=forever | {"min.insync.replicas": "2"}
        )
        async with producer(source) as client, mirror.run() as run, asyncio.TaskGroup() as group:
            windows, writer, topics = Windows(run), Writer(client), frozenset({TOPIC})
            following = group.create_task(windows.follow())
            for number in range(FLAPS):
                name, holds = MOMENTS[number % len(MOMENTS)]
                run.copier.pause(topics)  # a copy is faster than the writer: it would have no full window
                for _ in range(AHEAD):
                    await writer.block()
                run.copier.resume(topics)
                await run.until(lambda holds=holds: holds(run), name, DEADLINE_S)  # type: ignore[misc]
                how = random.choice(("leader", "follower", "both"))
                at = sum(one.source_next for one in run.progress().lanes)
                done.append((name, how, window(run)))
                await flap(how, run, target)
                await until_in_sync(target, copied, 1, 2, 3)
            count = writer.records * PARTITIONS
            await run.until_copied(deadline_s=DEADLINE_S)
            following.cancel()
            for kind in (TargetGap, SourceGap, RecordRefused, OwnershipLost):
                assert run.told(kind) == [], run.describe()
        assert at < count, "the last fault came after everything was copied"
        assert await assert_identical(source, target, TOPIC, copied) == count
    figures[f"two days old, flapping {seed}"] = {
        "faults": done,
        "young_in_flight": median(windows.young),
        "young_in_flight_most": max(windows.young),
        "old_in_flight_most": max(windows.old),
        "at_last_fault": at,
    }
