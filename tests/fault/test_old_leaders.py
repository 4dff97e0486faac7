"""Target brokers that are no longer leaders and do not know it: frozen and thawed again."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from deploy.local.broker import Broker
from deploy.local.cluster import EmbeddedCluster, start_clusters
from deploy.local.ports import HOST
from engine.core.events.events import ForeignWriter, OwnershipLost, RecordRefused, SourceGap, TargetCut, TargetGap
from engine.core.lane.states import State
from tests.harness.beside import beside
from tests.harness.compare import assert_identical
from tests.harness.load import append, numbered, producer
from tests.harness.mirror import Mirror, Run

pytestmark = [pytest.mark.integration, pytest.mark.fault, pytest.mark.full]

PARTITIONS = 6
ALARMS = TargetCut, TargetGap, SourceGap, ForeignWriter, RecordRefused, OwnershipLost
DEADLINE_S = 180.0
LOOK_S = 0.3
OLD_S = 12.0
"""Three sessions of an embedded broker: others lead its partitions long before."""


@asynccontextmanager
async def clusters(folder: Path) -> AsyncIterator[tuple[EmbeddedCluster, EmbeddedCluster]]:
    """A source, and a target of three brokers: the first alone is the controller."""
    source = EmbeddedCluster("source", folder / "source")
    target = EmbeddedCluster("target", folder / "target", brokers=3, heap_mib=512)
    target.overrides["controller.quorum.voters"] = f"1@{HOST}:{target.brokers[0].address.controller_port}"
    for broker in target.brokers[1:]:
        target.own[broker.node_id] = {"process.roles": "broker", "listeners": f"PLAINTEXT://{HOST}:{broker.port}"}
    await asyncio.to_thread(start_clusters, source, target)
    try:
        yield source, target
    finally:
        for cluster in (source, target):
            await asyncio.to_thread(cluster.stop)


class Flowing:
    """Records that keep coming, a few to each partition every now and then."""

    def __init__(self, source: EmbeddedCluster, topic: str) -> None:
        self.count = 0
        self._source, self._topic = source, topic

    @asynccontextmanager
    async def flowing(self) -> AsyncIterator[None]:
        async with beside(self._pour()):
            yield

    async def _pour(self) -> None:
        async with producer(self._source) as client:
            while True:
                await self.more(client)
                await asyncio.sleep(0.05)

    async def more(self, client: Any) -> None:
        """Append to every partition; counted before, since a cancelled append may have landed."""
        for partition in range(PARTITIONS):
            await append(client, self._topic, partition, numbered(10, first=self.count, size_bytes=200))
            self.count += 10


async def looking_up(run: Run) -> None:
    """Look all leaders up again and again, until cancelled: whoever answers, old or new."""
    while True:
        run.copier.router.leaders.look_up(run.copier.drivers.values())
        await asyncio.sleep(LOOK_S)


def led_by(run: Run, broker: Broker) -> int:
    """How many lanes have records under way to a broker."""
    drivers = run.copier.drivers.values()
    return sum(1 for one in drivers if one.leaders.target.node == broker.node_id and one.lane.in_flight)


async def copied_meanwhile(run: Run) -> None:
    """Every lane copies what the source has by now, although the fault lasts."""
    await run.until_copied(deadline_s=DEADLINE_S)


async def judged(run: Run, mirror: Mirror, topic: str, figures: dict[str, Any], name: str) -> None:
    """No lane stands still, nothing was told that is not so, and the copy is exact."""
    await run.until_copied(deadline_s=DEADLINE_S)
    assert all(driver.lane.state is State.COPYING for driver in run.copier.drivers.values())
    for kind in ALARMS:
        assert run.told(kind) == [], run.describe()
    identical = await assert_identical(mirror.source, mirror.target, topic, mirror.copied(topic))
    figures[name] = {"identical_records": identical}


async def test_a_broker_frozen_beyond_its_session_with_requests_on_their_way(
    tmp_path: Path, figures: dict[str, Any]
) -> None:
    async with clusters(tmp_path) as (source, target):
        mirror, frozen = Mirror(source, target, "frozen"), target.brokers[1]
        await mirror.open()
        await mirror.topic("t", PARTITIONS)
        load = Flowing(source, "t")
        async with mirror.run() as run, asyncio.TaskGroup() as group:
            looking = group.create_task(looking_up(run))
            async with load.flowing():
                await run.until(lambda: all(one.records for one in run.progress().lanes), "all lanes copy", DEADLINE_S)
                assert frozen.pid is not None
                os.kill(frozen.pid, signal.SIGSTOP)
                try:
                    await run.until(lambda: led_by(run, frozen), "requests wait at the frozen broker", DEADLINE_S)
                    await asyncio.sleep(OLD_S)
                    await copied_meanwhile(run)
                finally:
                    os.kill(frozen.pid, signal.SIGCONT)
                before = load.count
                await run.until(lambda: load.count >= before + 1200, "records after the thaw", DEADLINE_S)
            await judged(run, mirror, "t", figures, "a target broker frozen beyond its session")
            looking.cancel()
