"""A target that loses acknowledged records (an unclean election): detected, rewound, copied again, or reported exactly.

Three brokers; the copies are on two of them. The follower dies, the leader alone acknowledges records and dies, the
follower comes back and is elected with the records that it has.
"""

import asyncio
from pathlib import Path

import pytest
from aiokafka.admin import NewTopic
from aiokafka.errors import for_code

from deploy.local.cluster import EmbeddedCluster, start_clusters
from engine.core.events.events import Resumed, SourceGap, TargetCut
from tests.harness.admin import admin, create_topics, delete_records
from tests.harness.compare import assert_identical, read_topic
from tests.harness.load import numbered, produce
from tests.harness.mirror import Mirror, Run, lanes_of

pytestmark = [pytest.mark.integration, pytest.mark.fault, pytest.mark.full]

BEFORE, LOST, AFTER = 300, 200, 100
_LOOSE = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


async def prepared(source: EmbeddedCluster, target: EmbeddedCluster, topic: str) -> Mirror:
    """Make a flow whose copy has brokers 1 and 2 for its replicas, 1 first."""
    mirror = Mirror(source, target, topic)
    await mirror.open()
    await create_topics(source, {topic: 1})
    copy = NewTopic(mirror.copied(topic), -1, -1, replica_assignments={0: [1, 2]}, topic_configs=_LOOSE)
    async with admin(target) as client:
        (answer,) = (await client.create_topics([copy])).topic_errors
    if answer[1]:
        raise for_code(answer[1])(answer[2])
    mirror.lanes = lanes_of(topic, mirror.copied(topic), 1)
    await produce(source, topic, 0, numbered(BEFORE))
    return mirror


async def settled(run: Run) -> None:
    """Everything is copied, and the positions say so."""
    await run.until_copied(deadline_s=120.0)
    drivers = run.copier.drivers.values()
    await run.until(lambda: all(driver.positions.settled for driver in drivers), "the positions are written")


async def test_records_lost_by_an_unclean_election(tmp_path: Path) -> None:
    source, target = (
        EmbeddedCluster("source", tmp_path / "source"),
        EmbeddedCluster("target", tmp_path / "target", brokers=3),
    )
    await asyncio.to_thread(start_clusters, source, target)
    try:
        await _play(source, target)
    finally:
        for cluster in (source, target):
            await asyncio.to_thread(cluster.stop)


async def _play(source: EmbeddedCluster, target: EmbeddedCluster) -> None:
    again, gone, late = [await prepared(source, target, topic) for topic in ("again", "gone", "late")]
    leader, follower = target.brokers[:2]
    async with late.run() as run:
        await settled(run)
    async with again.run() as first, gone.run() as second:
        for run in (first, second):
            await settled(run)
        await asyncio.to_thread(follower.kill)
        async with late.run() as third:  # this owner's barrier never reached the follower
            for topic, run in (("again", first), ("gone", second), ("late", third)):
                await produce(source, topic, 0, numbered(LOST, first=BEFORE))
                await settled(run)
            await asyncio.to_thread(leader.kill)
            await delete_records(source, "gone", {0: BEFORE + LOST // 2})
            for topic in ("again", "late"):
                await produce(source, topic, 0, numbered(AFTER, first=BEFORE + LOST))
            await asyncio.to_thread(target.restart, follower)

            cut = await first.until_told(TargetCut, deadline_s=120.0)
            assert (cut.expected - cut.found >= LOST - 1, cut.source_offset) == (True, BEFORE)
            await first.until_copied(deadline_s=120.0)
            assert [one.how for one in first.told(Resumed)] == ["start", "target regression"]

            gap = await second.until_told(SourceGap, deadline_s=120.0)
            assert (gap.first, gap.last) == (BEFORE, BEFORE + LOST // 2 - 1)

            older = await third.until_told(TargetCut, deadline_s=120.0)  # nothing of its epoch is left: the map knows
            assert older.source_offset == BEFORE
            await third.until_copied(deadline_s=120.0)
        await asyncio.to_thread(target.restart, leader)
    for mirror, topic in ((again, "again"), (late, "late")):
        assert await assert_identical(source, target, topic, mirror.copied(topic)) == BEFORE + LOST + AFTER
    copied = await read_topic(target, gone.copied("gone"))  # nothing stands behind the hole
    assert [one.value for one in copied[0]] == [one.value for one in numbered(BEFORE)]
