"""A proof of a copy by MM2 first, then by raymirror: MM2's part is not judged, raymirror's part is whole."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.base.errors import ConnectionLost
from engine.core.events.events import Resumed
from tests.conftest import Pair
from tests.harness.admin import create_topics
from tests.harness.compare import read_topic
from tests.harness.load import append, numbered, producer
from tests.harness.mirror import Mirror, lanes_of
from tests.harness.mm2 import Mm2, mm2_properties
from tests.harness.proofs import lane, prove

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.integration,
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

TOPIC, PARTITIONS = "verify-moved", 2
THEIRS, OURS = 1000, 300
DEADLINE_S = 300.0
MORE = {"b.offset.flush.interval.ms": "3000", "tasks.max": "1", "emit.heartbeats.enabled": "false"}


async def copied_by(mm2: Mm2, mirror: Mirror, records: int) -> None:
    """Wait until MM2 has so many in every partition."""
    names = [one.target for one in mirror.lanes]
    async with asyncio.timeout(DEADLINE_S), mirror.asking_target() as target:
        while True:
            mm2.assert_running()
            try:
                there = len(await target.leaders(names)) == len(names)
                if there and min((await target.offsets(names, -1)).values()) >= records:
                    return
            except ConnectionLost:  # a topic that was just created
                pass
            await asyncio.sleep(0.05)


async def noted_by(mm2: Mm2, mirror: Mirror) -> None:
    """Wait until MM2 has written a position of every partition: without one, ours would begin anew."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            mm2.assert_running()
            found = await read_topic(mirror.target, mirror.positions_topic)
            if len({one.key for records in found.values() for one in records}) == PARTITIONS:
                return
            await asyncio.sleep(0.2)


async def send(mirror: Mirror, first: int, count: int) -> None:
    async with producer(mirror.source) as client:
        for partition in range(PARTITIONS):
            await append(client, TOPIC, partition, numbered(count, first=first))


async def test_behind_a_takeover_from_mm2_all_is_whole(
    cluster_pair: Pair, spark: "SparkSession", tmp_path: Path
) -> None:
    mirror = Mirror(*cluster_pair, alias=TOPIC, positions_partitions=25)
    await mirror.topic_on_source(TOPIC, PARTITIONS)
    await create_topics(mirror.target, {mirror.map_topic: 25}, configs={"cleanup.policy": "compact"})
    mirror.lanes = lanes_of(TOPIC, mirror.copied(TOPIC), PARTITIONS)
    await send(mirror, 0, THEIRS)
    mm2 = Mm2(tmp_path / "mm2", mm2_properties(mirror, TOPIC, MORE))
    try:
        await copied_by(mm2, mirror, THEIRS)
        await noted_by(mm2, mirror)
    finally:
        await mm2.kill()
    await send(mirror, THEIRS, OURS)
    async with mirror.run(drain=False) as run:  # cut off, as MM2 was
        await run.until(
            lambda: len({one.lane for one in run.told(Resumed)}) == PARTITIONS, "all lanes are taken over", DEADLINE_S
        )
        await run.until_copied(deadline_s=DEADLINE_S)
    await send(mirror, THEIRS + OURS, OURS)
    async with mirror.run() as run:
        await run.until_copied(deadline_s=DEADLINE_S)
    report = await prove(spark, mirror, tmp_path, TOPIC)
    assert (report.differences, report.whole) == ((), True)
    for partition in range(PARTITIONS):
        found = lane(report, TOPIC, partition)
        assert 0 < found.unmapped <= THEIRS, "what MM2 copied, up to a position of its own"
        assert (found.unmapped + found.records, found.proven_to) == (THEIRS + 2 * OURS,) * 2
