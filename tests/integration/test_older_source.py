"""A source that speaks Fetch 11 only, as brokers before 2.7 do: topics by name, and requests for the ends of epochs."""

import asyncio

import pytest

from engine.core.events.events import LaneRefused, SourceGap
from engine.kafka.client.cluster import ClusterClient
from tests.harness.compare import assert_identical
from tests.harness.load import numbered, produce
from tests.harness.mirror import Mirror
from tests.harness.older import FETCH, METADATA, OlderClient

pytestmark = pytest.mark.integration


def old_client(alias: str, servers: str) -> ClusterClient:
    """Make a client that knows the source as Kafka 2.4 was."""
    return OlderClient(alias, servers, {FETCH: 11, METADATA: 7})


async def test_records_across_leader_epochs(mirror: Mirror) -> None:
    """The leader epoch rises while the flow runs, and between two runs: each time the leader is asked, and agrees."""
    mirror.source_client = old_client
    copied = await mirror.topic("older-source", 3)

    async def fill(first: int) -> None:
        for partition in range(3):
            await produce(mirror.source, "older-source", partition, numbered(200, first=first))

    async def restart() -> None:
        await asyncio.to_thread(mirror.source.brokers[0].stop)
        await asyncio.to_thread(mirror.source.restart, mirror.source.brokers[0])

    await fill(0)
    async with mirror.run() as run:
        await run.until_copied()
        epochs = {driver.leaders.source.epoch for driver in run.copier.drivers.values()}
        await restart()
        await fill(200)
        await run.until_copied(deadline_s=120.0)
        after = {driver.leaders.source.epoch for driver in run.copier.drivers.values()}
        assert min(after) > max(epochs) >= 0
        assert not run.told(SourceGap)
    await restart()
    await fill(400)
    async with mirror.run() as run:
        await run.until_copied()
        assert not run.told(SourceGap)
        assert not run.told(LaneRefused)
    assert await assert_identical(mirror.source, mirror.target, "older-source", copied) == 1800
