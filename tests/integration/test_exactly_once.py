"""Lanes that copy in transactions: readers of committed records see each record once, whatever dies."""

import asyncio
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from deploy.local.cluster import Cluster
from engine.core.events import Resumed
from engine.errors import BrokerUnreachable, ConnectionLost
from engine.flow.ports import LATEST
from policies.model import LaneName
from tests.harness.admin import create_topics
from tests.harness.compare import read_topic
from tests.harness.copier_process import Kill
from tests.harness.load import numbered, pour, produce
from tests.harness.mirror import Mirror, lanes_of
from tests.harness.process import CopierProcess

pytestmark = [pytest.mark.integration]

PARTITIONS = 4
COMMIT_S = 0.2
DEADLINE_S = 180.0


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


async def test_moves_under_load_commit_and_roll_nothing_back(source_cluster: Cluster, target_cluster: Cluster) -> None:
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


async def test_switched_off_and_on_with_a_death_between(source_cluster: Cluster, target_cluster: Cluster) -> None:
    mirror = await opened(source_cluster, target_cluster, "switched")
    terms = mirror.terms, msgspec.structs.replace(mirror.terms, commit_s=0.0)
    sent = 0
    for turn in range(4):
        mirror.terms = terms[turn % 2]
        await fill(mirror, "switched", 500, first=sent)
        sent += 500
        async with mirror.run(drain=False) as run:
            await run.until_copied()
    mirror.terms = terms[0]
    async with mirror.run() as run:
        await run.until_copied()
    assert await assert_once(mirror, "switched") == PARTITIONS * sent


async def test_a_partition_without_a_leader_holds_back_no_reader_of_others(
    source_cluster: Cluster, tmp_path: Path
) -> None:
    target = Cluster("target", tmp_path / "target", brokers=3, heap_mib=512)
    await asyncio.to_thread(target.start)
    try:
        await _lose_a_leader(source_cluster, target)
    finally:
        await asyncio.to_thread(target.stop)


async def _lose_a_leader(source: Cluster, target: Cluster) -> None:
    mirror = Mirror(source, target, alias="eos-led", commit_s=COMMIT_S)
    await mirror.open()
    await mirror.topic_on_source("led", PARTITIONS)
    await create_topics(target, {mirror.copied("led"): PARTITIONS}, replicas=1)
    mirror.lanes += lanes_of("led", mirror.copied("led"), PARTITIONS)
    await fill(mirror, "led", 500)
    async with mirror.run() as run:
        await run.until_copied()
        async with mirror.asking_target() as asked:
            led = await asked.leaders([lane.target for lane in mirror.lanes])
        dead = led[mirror.lanes[0].target].node
        alive = [lane for lane in mirror.lanes if led[lane.target].node != dead]
        assert alive, "every partition has the same leader"
        broker = next(one for one in target.brokers if one.node_id == dead)
        load = asyncio.create_task(fill(mirror, "led", 5000, first=500))
        await run.until(lambda: run.progress().records > PARTITIONS * 500, "more is being copied")
        await asyncio.to_thread(broker.kill)
        await load
        await fill(mirror, "led", 500, first=5500)
        committed = await _until_seen(mirror, alive, 6000)
        assert all(committed[lane.target.partition] == list(range(6000)) for lane in alive)
        await asyncio.to_thread(target.restart, broker)
        await run.until_copied(deadline_s=180.0)
    await _until_seen(mirror, list(mirror.lanes), 6000)  # the marker of what is decided comes a moment later
    assert await assert_once(mirror, "led") == PARTITIONS * 6000


async def _until_seen(mirror: Mirror, lanes: list[LaneName], count: int) -> dict[int, list[int]]:
    """Read what readers of committed records see of some partitions until they see so many; return their keys."""
    seen: dict[int, list[int]] = {lane.target.partition: [] for lane in lanes}
    async with mirror.asking_target() as target, asyncio.timeout(DEADLINE_S):
        for lane in lanes:
            keys = seen[lane.target.partition]
            while len(keys) < count:
                keys.clear()
                try:
                    end = (await target.offsets([lane.target], LATEST))[lane.target]
                    async for records in target.read_log(lane.target, 0, end, committed=True):
                        keys += [int((record.key or b"k")[1:]) for record in records]
                except (ConnectionLost, BrokerUnreachable):
                    await asyncio.sleep(0.1)  # the metadata still name the dead broker
    return seen
