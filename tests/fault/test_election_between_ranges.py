"""An unclean election of the source while a distant partition is read in ranges: between two answers, history changes.

    old history    |===== shared =====|xxxxx lost xxxxx|          leader 2, before
    ranges               [held][held] [arrived][arrived]
    new history    |===== shared =====|nnnnnn new nnnnnn|         leader 3, uncleanly elected

Answers from the lost end have arrived, those in front of them come only after the election. The copy must not hold a
record of the lost end in front of the new history unless it was copied before raymirror knew of the election, and it
must hold every record of the new history, once and in order.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.recovery.fronted import FrontedCluster
from bench.recovery.leading import assign, elect, reassign
from deploy.local.cluster import EmbeddedCluster, start_clusters
from engine.core.events.events import RecordRefused, SourceGap, TargetGap
from policies.sync.topic_faults import FaultRules, OnGap, TopicRule
from tests.harness.compare import Read, read_topic
from tests.harness.gated_source import Gate, GatedSource
from tests.harness.load import pour
from tests.harness.mirror import Mirror, Run
from tests.harness.replicas import distant_cluster, resume, stopped, until_in_sync, until_led

pytestmark = [pytest.mark.integration, pytest.mark.fault, pytest.mark.full]

LEADER, FOLLOWER = 2, 3
SHARED, LOST, NEW = 16_000, 16_000, 8_000
HELD = 1_500
"""Records in front of the lost end whose answers are held: some ranges, fewer than are on their way at once."""
TOPIC = "t"


@asynccontextmanager
async def clusters(folder: Path) -> AsyncIterator[tuple[FrontedCluster, EmbeddedCluster]]:
    """A source of three brokers, 50 ms away, and a target next to the mirror."""
    source = distant_cluster("source", folder / "source", {})
    target = EmbeddedCluster("target", folder / "target", heap_mib=512)
    await asyncio.to_thread(start_clusters, source, target)
    try:
        yield source, target
    finally:
        for cluster in (source, target):
            await asyncio.to_thread(cluster.stop)


async def write(source: FrontedCluster, count: int) -> None:
    """Append records of 1,000 random letters, in batches of 16 KiB."""
    await pour(source, TOPIC, count, size_bytes=1000, codec="none", batch_bytes=16_384)


async def prepare(source: FrontedCluster, mirror: Mirror, folder: Path) -> str:
    """Create the topic on two brokers, of which one leads, with the shared records; return the name of the copy."""
    await mirror.open()
    copied = await mirror.topic(TOPIC, on_source={"min.insync.replicas": "1"})
    wanted = {(TOPIC, 0): (LEADER, FOLLOWER)}
    await asyncio.to_thread(reassign, source, wanted, folder)
    await until_in_sync(source, TOPIC, LEADER, FOLLOWER)
    await asyncio.to_thread(elect_preferred, source, folder)
    await write(source, SHARED)
    return copied


def elect_preferred(source: FrontedCluster, folder: Path) -> None:
    """Let the first of two replicas lead, if another one leads."""
    assign(source, {(TOPIC, 0): (LEADER, FOLLOWER)}, folder)


def known_leader(run: Run) -> tuple[int, int]:
    """Return the source leader that the lane knows, and its epoch."""
    (driver,) = run.copier.drivers.values()
    return driver.leaders.source.node, driver.leaders.source.epoch


@pytest.mark.parametrize("then", ["the other leads", "the first leads again", "raymirror does not know yet"])
async def test_no_answer_of_the_lost_history_is_joined_to_the_new_one(
    tmp_path: Path, figures: dict[str, Any], then: str
) -> None:
    async with clusters(tmp_path) as (source, target):
        # Records of the lost end that were copied before raymirror knew are a gap, behind which the lane goes on.
        faults = FaultRules(gaps=(TopicRule(".*", OnGap.CONTINUE.value),))
        mirror, gate = Mirror(source, target, "elected", faults=faults), Gate(SHARED - HELD, SHARED)
        mirror.source_servers = source.mirror_servers
        mirror.source_port = lambda client: GatedSource(client, gate)
        copied = await prepare(source, mirror, tmp_path)
        leader, follower = source.brokers[LEADER - 1], source.brokers[FOLLOWER - 1]
        with stopped(follower):
            await until_in_sync(source, TOPIC, LEADER)
            await write(source, LOST)
            (before,) = (await read_topic(source, TOPIC)).values()
            assert len(before) == SHARED + LOST
            async with mirror.run() as run:
                await run.until(lambda: gate.held > 1 and gate.beyond > 1, "ranges of the lost end have arrived")
                at, old = run.lane(TOPIC).source_next, known_leader(run)
                assert at < SHARED
                await asyncio.to_thread(leader.kill)
                resume(follower)
                await until_led(source, TOPIC, -1)
                await asyncio.to_thread(elect, source, "UNCLEAN", [(TOPIC, 0)], tmp_path)
                await until_led(source, TOPIC, FOLLOWER)
                if then == "raymirror does not know yet":
                    gate.open()
                await write(source, NEW)
                if then == "the first leads again":
                    await asyncio.to_thread(source.restart, leader)
                    await until_in_sync(source, TOPIC, LEADER, FOLLOWER)
                    await asyncio.to_thread(elect_preferred, source, tmp_path)
                    await until_led(source, TOPIC, LEADER)
                await run.until(lambda: known_leader(run)[1] > old[1], "the lane knows of the election")
                gate.open()
                await run.until_copied()
                gaps = len(run.told(SourceGap))
                for kind in (TargetGap, RecordRefused):
                    assert run.told(kind) == []
        (after,), (copy,) = (await read_topic(source, TOPIC)).values(), (await read_topic(target, copied)).values()
    assert len(after) == SHARED + NEW
    foreign = judge(before, after, copy)
    if then != "raymirror does not know yet":
        assert not foreign, "records of the lost end were copied although the election was known"
    assert bool(gaps) == bool(foreign)
    figures[f"unclean election between two ranges, {then}"] = {
        "copied_before": at,
        "ranges_held": gate.held,
        "ranges_arrived_of_the_lost_end": gate.beyond,
        "lost_records_copied": foreign,
    }


def judge(before: list[Read], after: list[Read], copy: list[Read]) -> int:
    """Assert that the copy is the source's log, perhaps with a beginning of the lost end where it was; return how long
    that is.
    """
    foreign = len(copy) - len(after)
    assert 0 <= foreign <= LOST
    assert copy[:SHARED] == before[:SHARED] == after[:SHARED]
    assert copy[SHARED : SHARED + foreign] == before[SHARED : SHARED + foreign]
    assert copy[SHARED + foreign :] == after[SHARED:]
    return foreign
