"""Lanes that copy in transactions: consumers of committed records see each record once, whatever dies."""

import asyncio
import random
from typing import Any

import msgspec
import pytest

from deploy.local.cluster import EmbeddedCluster
from engine.core.events.events import Resumed
from tests.harness.committed import assert_once, fill
from tests.harness.compare import read_topic
from tests.harness.copier_process import Kill
from tests.harness.load import pour
from tests.harness.mirror import Mirror
from tests.harness.process import CopierProcess

pytestmark = [pytest.mark.integration]

PARTITIONS = 4
COMMIT_S, DRAIN_S = 0.2, 180.0


async def opened(source: EmbeddedCluster, target: EmbeddedCluster, name: str, **options: Any) -> Mirror:
    """Make a flow of one topic of four partitions."""
    mirror = Mirror(source, target, alias=f"eos-{name}", **{"commit_s": COMMIT_S, "drain_s": DRAIN_S, **options})
    await mirror.open()
    await mirror.topic(name, PARTITIONS)
    return mirror


async def test_records_are_seen_once_in_order_after_kills_in_full_flight(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster
) -> None:
    count, kills = 200_000, 4
    mirror = await opened(source_cluster, target_cluster, "killed", partition_fetch_bytes=64 * 1024)
    await pour(mirror.source, "killed", count, batch_bytes=16384)
    chance = random.Random(count)
    for _ in range(kills):
        kill = Kill(records=int(count / (kills + 1) * chance.uniform(0.3, 0.9)), in_flight=2, behind=500)
        running = await CopierProcess.spawn(mirror, kill)
        running.go()
        assert await running.ended() == -9, "the copier was to be killed"
        assert running.last.killed
        await running.close()
    last = await CopierProcess.spawn(mirror)
    last.go()
    async with mirror.asking_source() as source:
        ends = await source.offsets([lane.source for lane in mirror.lanes], -1)
    await last.until(lambda: last.last.copied >= sum(ends.values()), "all copied")
    assert {event.how for event in last.told(Resumed)} == {"position"}, "nothing but positions is needed"
    await last.drain()
    await last.close()
    assert await assert_once(mirror, "killed") == count
    everything = await read_topic(mirror.target, mirror.copied("killed"))
    rolled_back = sum(len(records) for records in everything.values()) - count
    # Not all that had no answer at a kill: a commit that was decided and not yet answered for stays.
    assert rolled_back > 0, "no transaction was open at any kill: the kills prove nothing"


async def test_moves_under_load_commit_and_roll_nothing_back(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster
) -> None:
    mirror = await opened(source_cluster, target_cluster, "moved", partition_fetch_bytes=16 * 1024)
    count = 40_000
    load = asyncio.create_task(pour(mirror.source, "moved", count, batch_bytes=4096))
    for _ in range(3):
        async with mirror.run() as run:
            before = run.progress().records
            await run.until(lambda: run.progress().records > before + 1000, "copies")  # noqa: B023
            await run.copier.release(f"{mirror.flow}/000")
            assert run.copier.drivers == {}
    async with mirror.run() as run:
        await load
        await run.until_copied()
        assert {event.how for event in run.told(Resumed)} <= {"position"}
    assert await assert_once(mirror, "moved") == count
    everything = await read_topic(mirror.target, mirror.copied("moved"))
    assert sum(len(records) for records in everything.values()) == count, "a move commits"


async def test_switched_off_and_on_with_a_death_between(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster
) -> None:
    mirror = await opened(source_cluster, target_cluster, "switched")
    options = mirror.options, msgspec.structs.replace(mirror.options, commit_s=0.0)
    sent = 0
    for turn in range(4):
        mirror.options = options[turn % 2]
        await fill(mirror, "switched", 500, first=sent)
        sent += 500
        async with mirror.run(drain=False) as run:
            await run.until_copied()
    mirror.options = options[0]
    async with mirror.run() as run:
        await run.until_copied()
    assert await assert_once(mirror, "switched") == PARTITIONS * sent
