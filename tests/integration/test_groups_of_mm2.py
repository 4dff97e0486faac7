"""Groups of a flow that MM2 copied first: below raymirror's map MM2's syncs answer, near and never ahead."""

import asyncio
from pathlib import Path

import pytest

from deploy.local.cluster import EmbeddedCluster
from engine.base.errors import ConnectionLost
from engine.core.events.events import Resumed
from engine.core.position.position import ForeignPosition, decode_value
from engine.core.position.position_keys import PositionKeys
from policies.model import TopicPartition
from tests.harness import groups as stock
from tests.harness.admin import create_topics
from tests.harness.keeping import POLLED, Sides, keeping, rounds
from tests.harness.load import numbered, produce
from tests.harness.mirror import Mirror, lanes_of
from tests.harness.mm2 import Mm2, mm2_properties

pytestmark = [pytest.mark.integration, pytest.mark.full]

FIRST, MORE = 600, 100
DEADLINE_S = 240.0
SETTINGS = {"b.offset.flush.interval.ms": "500", "emit.heartbeats.enabled": "false", "tasks.max": "1"}


async def mm2_copies(mirror: Mirror, topic: str, folder: Path) -> None:
    """Run MM2 until it has copied all and says so: our map begins there, and its syncs lie below."""
    mm2 = Mm2(folder, mm2_properties(mirror, topic, SETTINGS))
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not await all_there(mirror):
                mm2.assert_running()
                await asyncio.sleep(0.1)
    finally:
        await mm2.kill()


async def all_there(mirror: Mirror) -> bool:
    async with mirror.asking_target() as target:
        try:
            if not await target.leaders([TopicPartition(mirror.positions_topic, 0)]):
                return False
            records = await target.read_records(mirror.positions_topic)
        except ConnectionLost:  # a topic that was just created
            return False
    keys = PositionKeys(mirror.flow.source)
    written = [decode_value(value) for key, value in records if keys.decode(key) is not None]
    return ForeignPosition(offset=FIRST - 1) in written


async def test_groups_below_and_above_the_takeover(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    topic = alias = "groups-of-mm2"
    mirror = Mirror(source_cluster, target_cluster, alias, positions_partitions=25)
    await mirror.topic_on_source(topic, 1)
    mirror.lanes = lanes_of(topic, mirror.copied(topic), 1)
    for first in range(0, FIRST, 50):
        await produce(mirror.source, topic, 0, numbered(50, first=first))
    await mm2_copies(mirror, topic, tmp_path)
    await create_topics(mirror.target, {mirror.map_topic: 25}, configs={"cleanup.policy": "compact"})
    below, above = f"{alias}-below", f"{alias}-above"
    await stock.commit(mirror.source, below, topic, {0: 250})
    async with mirror.run() as run:
        await run.until_told(Resumed, topic, DEADLINE_S)
        await produce(mirror.source, topic, 0, numbered(MORE, first=FIRST))
        await run.until_copied()
    await stock.commit(mirror.source, above, topic, {0: FIRST + 33})
    async with keeping(mirror, POLLED) as keeper, Sides(mirror) as sides:
        report = await rounds(keeper)
        assert report.how == {"MM2 sync": 1, "run": 1}, report
        near = (await sides.stored(below))[0]
    (first, *_) = await stock.read_from(mirror.target, below, mirror.copied(topic), 1)
    assert int(first.value.strip()[1:]) <= 250
    assert near <= 250
    (first, *_) = await stock.read_from(mirror.target, above, mirror.copied(topic), 1)
    assert first.value.strip() == b"v%d" % (FIRST + 33)
