"""Lanes that copy in transactions: readers of committed records see each record once, whatever dies."""

import random
from typing import Any

import pytest

from deploy.local.cluster import Cluster
from engine.core.events import Resumed
from tests.harness.compare import read_topic
from tests.harness.copier_process import Kill
from tests.harness.load import numbered, pour, produce
from tests.harness.mirror import Mirror
from tests.harness.process import CopierProcess

pytestmark = [pytest.mark.integration]

PARTITIONS = 4
COMMIT_S = 0.2


async def fill(mirror: Mirror, topic: str, count: int, first: int = 0) -> None:
    """Give every partition so many records more."""
    for partition in range(PARTITIONS):
        await produce(mirror.source, topic, partition, numbered(count, first=first))


async def opened(source: Cluster, target: Cluster, name: str, **terms: Any) -> Mirror:
    """Make a flow of one topic of four partitions."""
    mirror = Mirror(source, target, alias=f"eos-{name}", **{"commit_s": COMMIT_S, **terms})
    await mirror.open()
    await mirror.topic(name, PARTITIONS)
    return mirror


async def assert_once(mirror: Mirror, topic: str) -> int:
    """Compare what a reader of committed records sees on the target with the source; return how many records."""
    expected = await read_topic(mirror.source, topic, committed=True)
    found = await read_topic(mirror.target, mirror.copied(topic), committed=True)
    assert {number: len(records) for number, records in found.items()} == {
        number: len(records) for number, records in expected.items()
    }
    assert found == expected
    return sum(len(records) for records in found.values())


async def test_records_are_seen_once_in_order_after_kills_in_full_flight(
    source_cluster: Cluster, target_cluster: Cluster
) -> None:
    count, kills = 200_000, 4
    mirror = await opened(source_cluster, target_cluster, "killed", partition_fetch_bytes=64 * 1024)
    await pour(mirror.source, "killed", count, batch_bytes=16384)
    chance = random.Random(count)
    left_open = 0
    for _ in range(kills):
        kill = Kill(records=int(count / (kills + 1) * chance.uniform(0.3, 0.9)), in_flight=2, behind=500)
        running = await CopierProcess.spawn(mirror, kill)
        running.go()
        assert await running.ended() == -9, "the copier was to be killed"
        assert running.last.killed
        left_open += running.last.behind
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
    assert rolled_back >= left_open > 0, "no transaction was open at any kill: the kills prove nothing"
