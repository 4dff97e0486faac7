"""Small batches are merged between real brokers: the same records in larger batches, exactly mapped, also when cut."""

import asyncio
from functools import partial

import pytest

from engine.core.lane.rebatching import rebatch_rules
from engine.core.offset_map.map_runs import MapRun
from tests.harness.compare import assert_identical
from tests.harness.load import Sent, append, numbered, produce, producer
from tests.harness.mirror import Mirror, Run
from tests.harness.segments import batches

pytestmark = pytest.mark.integration

FOREVER = {"retention.ms": "-1"}
"""The records are of the past."""
ALONE = {"max_batch_size": 1, "linger_ms": 0}
"""A producer's options with which each record is a batch."""


def with_headers(count: int, *, first: int = 0) -> list[Sent]:
    """Records with and without keys, values, headers and with timestamps that go back and forth."""
    return [
        Sent(
            b"k%d" % number if number % 7 or not number % 11 else None,
            b"v%d " % number * (number % 9) if number % 11 else None,
            [("name", b"%d" % number), ("none", None)] if number % 5 == 0 else [],
            1_750_000_000_000 + 1000 * number - 70_000 * (number % 2),
        )
        for number in range(first, first + count)
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd"])
async def test_records_that_came_one_by_one_leave_together(mirror: Mirror, codec: str) -> None:
    topic = f"tiny-{codec}"
    copied = await mirror.topic(topic, on_source=FOREVER, on_target=FOREVER)
    compression = None if codec == "none" else codec
    await produce(mirror.source, topic, 0, with_headers(600), compression_type=compression, **ALONE)
    assert len(batches(mirror.source, topic)) == 600
    async with mirror.run() as run:
        await run.until_copied()
        meter = run.copier.progress()
        known = run.copier.drivers[mirror.lanes[0].source].lane.map
        assert known is not None
        assert known.runs == (MapRun(0, known.runs[0].target, 600),)
        assert meter.merged_from >= 590
        assert meter.merged_batches <= 25
    assert await assert_identical(mirror.source, mirror.target, topic, copied) == 600
    made = [one for one in batches(mirror.target, copied) if not one.is_control]
    rules = rebatch_rules()
    most = {"none": rules.plain_records or 200, "zstd": rules.compressed_batches * 2 // 3}
    assert max(one.record_count for one in made) >= most.get(codec, rules.compressed_batches) * 3 // 4
    counts = [one.record_count for one in made]
    assert [one.base_sequence for one in made] == [sum(counts[:at]) for at in range(len(made))]
    assert len({one.attributes & 7 for one in made}) == 1


@pytest.mark.parametrize(
    ("name", "on_source", "on_target"),
    [
        ("stamped-at-the-source", {"message.timestamp.type": "LogAppendTime"}, {}),
        ("narrow", {}, {"max.message.bytes": "900"}),
        ("anew", {}, {"compression.type": "gzip"}),
    ],
)
async def test_topics_with_configs_of_their_own(
    mirror: Mirror, name: str, on_source: dict[str, str], on_target: dict[str, str]
) -> None:
    copied = await mirror.topic(name, on_source=FOREVER | on_source, on_target=FOREVER | on_target)
    await produce(mirror.source, name, 0, with_headers(300), **ALONE)
    async with mirror.run() as run:
        await run.until_copied()
        assert run.copier.progress().merged_from > 200
    assert await assert_identical(mirror.source, mirror.target, name, copied) == 300


async def test_aborted_and_committed_transactions_of_single_records(mirror: Mirror) -> None:
    copied = await mirror.topic("single")
    async with producer(mirror.source, transactional_id="single", **ALONE) as client:
        for number in range(60):
            await client.begin_transaction()
            await append(client, "single", 0, numbered(3, first=10 * number))
            await (client.abort_transaction() if number % 4 == 1 else client.commit_transaction())
    async with mirror.run() as run:
        await run.until_copied()
        assert run.copier.progress().merged_batches > 0
    assert await assert_identical(mirror.source, mirror.target, "single", copied, committed=True) == 45 * 3


def _is_at(run: Run, source_next: int) -> bool:
    return run.lane("cut").source_next >= source_next


async def test_a_copier_that_is_cut_off_among_merged_batches(mirror: Mirror) -> None:
    copied = await mirror.topic("cut", on_source=FOREVER, on_target=FOREVER)
    sent = 0
    for _ in range(4):
        load = asyncio.create_task(
            produce(mirror.source, "cut", 0, with_headers(400, first=sent), compression_type=None, **ALONE)
        )
        async with mirror.run(drain=False) as run:
            await run.until(partial(_is_at, run, sent + 100), "some records are copied")
        await load
        sent += 400
    async with mirror.run() as run:
        await run.until_copied()
    assert await assert_identical(mirror.source, mirror.target, "cut", copied) == 1600
