"""Two copiers that both act as owner of the same lanes: the brokers refuse one of them, nothing is doubled."""

import os
import signal
from contextlib import AsyncExitStack

import pytest

from deploy.local.cluster import EmbeddedCluster
from engine.core.events.events import OwnershipLost, Resumed
from tests.harness.compare import assert_identical
from tests.harness.load import numbered, pour, produce
from tests.harness.mirror import Mirror
from tests.harness.process import CopierProcess
from tests.harness.refusals import fenced_appends

pytestmark = [pytest.mark.integration, pytest.mark.fault]

PARTITIONS = 3
COUNT = 60_000
MORE = 200


async def filled(pair: tuple[EmbeddedCluster, EmbeddedCluster], topic: str) -> tuple[Mirror, str]:
    mirror = Mirror(*pair, alias=topic, partition_fetch_bytes=16 * 1024)
    await mirror.open()
    copied = await mirror.topic(topic, PARTITIONS)
    await pour(mirror.source, topic, COUNT, batch_bytes=8192)
    return mirror, copied


async def more(mirror: Mirror, topic: str) -> None:
    """Give every lane something to append: an owner with nothing to send does not meet the fence."""
    for partition in range(PARTITIONS):
        await produce(mirror.source, topic, partition, numbered(MORE))


async def test_the_older_of_two_running_copiers_stands_down(pair: tuple[EmbeddedCluster, EmbeddedCluster]) -> None:
    mirror, copied = await filled(pair, "newer-wins")
    async with mirror.run(epoch=1, drain=False) as old:
        await old.until(lambda: sum(one.records for one in old.progress().lanes) > COUNT // 10, "a tenth is copied")
        async with mirror.run(epoch=2) as new:
            await new.until(
                lambda: len({one.lane for one in new.told(Resumed)}) == PARTITIONS, "the newer one has the lanes"
            )
            await more(mirror, "newer-wins")
            await old.until(
                lambda: len({one.lane for one in old.told(OwnershipLost)}) == PARTITIONS, "the older one stands down"
            )
            assert {(one.assignment_epoch, one.other_epoch) for one in old.told(OwnershipLost)} == {(1, 2)}
            await new.until_copied()
            assert new.told(OwnershipLost) == []
    assert await assert_identical(mirror.source, mirror.target, "newer-wins", copied) == COUNT + PARTITIONS * MORE


async def test_a_newer_copier_survives_an_older_one_that_starts_late(
    pair: tuple[EmbeddedCluster, EmbeddedCluster],
) -> None:
    """Kafka fences for whoever came last, not for our epoch: the newer one is fenced, looks, and takes it back."""
    mirror, copied = await filled(pair, "late")
    async with mirror.run(epoch=2) as new:
        await new.until(lambda: sum(one.records for one in new.progress().lanes) > COUNT // 10, "a tenth is copied")
        async with mirror.run(epoch=1, drain=False) as old:
            await old.until(
                lambda: len({one.lane for one in old.told(OwnershipLost)}) == PARTITIONS, "the older one stands down"
            )
            await new.until_copied()
        await produce(mirror.source, "late", 0, numbered(500))
        await new.until_copied()
        assert new.told(OwnershipLost) == []
    assert await assert_identical(mirror.source, mirror.target, "late", copied) == COUNT + 500


async def test_a_frozen_copier_thaws_after_its_successor_has_begun(
    pair: tuple[EmbeddedCluster, EmbeddedCluster],
) -> None:
    mirror, copied = await filled(pair, "thaw")
    async with AsyncExitStack() as stack:
        frozen = await CopierProcess.spawn(mirror)
        stack.push_async_callback(frozen.close)
        frozen.go()
        await frozen.until(lambda: frozen.last.records > COUNT // 10, "a tenth is copied")
        os.kill(frozen.pid, signal.SIGSTOP)
        successor = await CopierProcess.spawn(mirror)
        stack.push_async_callback(successor.close)
        successor.go()
        await successor.until(
            lambda: len({one.lane for one in successor.told(Resumed)}) == PARTITIONS, "the successor has the lanes"
        )
        os.kill(frozen.pid, signal.SIGCONT)
        await more(mirror, "thaw")
        await frozen.until(
            lambda: len({one.lane for one in frozen.told(OwnershipLost)}) == PARTITIONS, "the thawed one stands down"
        )
        await successor.until(lambda: successor.last.copied == COUNT + PARTITIONS * MORE, "all copied")
        await successor.drain()
        await frozen.drain()
    assert await assert_identical(mirror.source, mirror.target, "thaw", copied) == COUNT + PARTITIONS * MORE
    refused = fenced_appends(mirror.target, copied, mirror.positions_topic)
    assert len({one.producer_id for one in refused}) == PARTITIONS, "the broker's log tells of every lane's refusal"
