"""Transactional sources: committed, aborted and open transactions, one by one and interleaved."""

from typing import Any

import pytest

from engine.core.events.events import HeldByTransaction, LaneReleased
from engine.flow.ports.ports import FetchOptions
from tests.harness.compare import assert_identical
from tests.harness.load import append, numbered, produce, producer
from tests.harness.mirror import Mirror

pytestmark = pytest.mark.integration


async def transaction(client: Any, topic: str, first: int, count: int, *, commit: bool) -> None:
    await client.begin_transaction()
    await append(client, topic, 0, numbered(count, first=first))
    if commit:
        await client.commit_transaction()
    else:
        await client.abort_transaction()


async def fill(mirror: Mirror, topic: str) -> int:
    """Append committed, aborted and plain records; return how many count."""
    async with producer(mirror.source, transactional_id=topic, compression_type="lz4") as client:
        for turn in range(8):
            await transaction(client, topic, turn * 100, 50, commit=turn % 3 != 2)
            await produce(mirror.source, topic, 0, numbered(5, first=turn * 100 + 50))
    return 6 * 50 + 8 * 5


async def test_committed_and_aborted(mirror: Mirror) -> None:
    copied = await mirror.topic("both")
    count = await fill(mirror, "both")
    async with mirror.run() as run:
        await run.until_copied()
        assert run.lane("both").skipped > 0
    assert await assert_identical(mirror.source, mirror.target, "both", copied, committed=True) == count
    async with mirror.run() as run:  # an owner that finds nothing new adds nothing
        await run.until_copied()
    assert await assert_identical(mirror.source, mirror.target, "both", copied, committed=True) == count


async def test_interleaved_transactions(mirror: Mirror) -> None:
    copied = await mirror.topic("interleaved")
    async with (
        producer(mirror.source, transactional_id="interleaved-1") as one,
        producer(mirror.source, transactional_id="interleaved-2") as two,
    ):
        for turn in range(5):
            await one.begin_transaction()
            await two.begin_transaction()
            for part in range(4):
                await append(one, "interleaved", 0, numbered(7, first=turn * 1000 + part * 10))
                await append(two, "interleaved", 0, numbered(7, first=turn * 1000 + 500 + part * 10))
            await (one.commit_transaction() if turn % 2 else one.abort_transaction())
            await (two.abort_transaction() if turn % 3 == 1 else two.commit_transaction())
    async with mirror.run() as run:
        await run.until_copied()
    count = await assert_identical(mirror.source, mirror.target, "interleaved", copied, committed=True)
    assert count == 28 * (2 + 3)


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
async def test_an_open_transaction_holds_its_lane_and_is_named(mirror: Mirror, commit: bool) -> None:
    held, free_topic = f"held-{commit}", f"free-{commit}"
    copied = await mirror.topic(held)
    free = await mirror.topic(free_topic)
    await produce(mirror.source, held, 0, numbered(30))
    async with producer(mirror.source, transactional_id=f"holder-{commit}") as client:
        await client.begin_transaction()
        await append(client, held, 0, numbered(20, first=30))
        await produce(mirror.source, held, 0, numbered(10, first=50))
        await produce(mirror.source, free_topic, 0, numbered(10))
        async with mirror.run() as run:
            event = await run.until_told(HeldByTransaction, held)
            assert event.producer_id == client._txn_manager.producer_id
            assert (event.last_stable_offset, event.high_watermark) == (30, 60)
            await run.until_copied(free_topic)
            await run.until(lambda: run.lane(held).source_next == 30, "all before the transaction is acknowledged")
            await (client.commit_transaction() if commit else client.abort_transaction())
            await run.until_copied()
            await run.until_told(LaneReleased, held)
    count = await assert_identical(mirror.source, mirror.target, held, copied, committed=True)
    assert count == (60 if commit else 40)
    assert await assert_identical(mirror.source, mirror.target, free_topic, free) == 10


async def test_read_uncommitted_copies_aborted_records_too(cluster_pair: Any) -> None:
    mirror = Mirror(cluster_pair.source, cluster_pair.target, "uncommitted", fetch=FetchOptions(read_committed=False))
    await mirror.open()
    copied = await mirror.topic("everything")
    await fill(mirror, "everything")
    async with mirror.run() as run:
        await run.until_copied()
    assert await assert_identical(mirror.source, mirror.target, "everything", copied) == 8 * 55
