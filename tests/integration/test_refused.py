"""Records that the target refuses: the lane stops and names the record, others continue, a right config frees it."""

import pytest

from engine.core.events.events import LaneReleased, RecordRefused
from tests.harness.admin import set_configs
from tests.harness.compare import assert_identical, read_topic
from tests.harness.load import Sent, append, numbered, produce, produce_batch, producer
from tests.harness.mirror import Mirror, Run

pytestmark = pytest.mark.integration

MIB = 1024 * 1024


async def in_batches(mirror: Mirror, topic: str, records: list[Sent], size: int) -> None:
    """Append records in batches of a fixed count."""
    async with producer(mirror.source) as client:
        for at in range(0, len(records), size):
            await append(client, topic, 0, records[at : at + size])


async def stands_refused(mirror: Mirror, run: Run, topic: str, offset: int, code: int) -> None:
    """The lane stopped at that record with everything before its batch copied; its neighbour was copied."""
    event = await run.until_told(RecordRefused, topic)
    assert (event.source_offset, event.error_code) == (offset, code)
    await run.until_copied(f"{topic}-other")
    assert run.lane(topic).source_next <= offset
    # Not all the time: while it is tried again it is copied as any other.
    await run.until(lambda: f"source offset {offset}" in run.lane(topic).reason, "the reason names the record")
    copied = (await read_topic(mirror.target, mirror.copied(topic)))[0]
    assert copied == (await read_topic(mirror.source, topic))[0][: run.lane(topic).source_next]


async def test_null_key_into_a_compacted_target(mirror: Mirror) -> None:
    copied = await mirror.topic("keys", on_target={"cleanup.policy": "compact"})
    other = await mirror.topic("keys-other")
    records = numbered(200)
    records[73] = Sent(None, b"no key")
    await in_batches(mirror, "keys", records, 10)
    await produce(mirror.source, "keys-other", 0, numbered(100))
    async with mirror.run() as run:
        await stands_refused(mirror, run, "keys", 73, 87)
        await set_configs(mirror.target, copied, {"cleanup.policy": "delete"})
        await run.until_copied()
        await run.until_told(LaneReleased, "keys")
        assert len(run.told(RecordRefused)) == 1
    assert await assert_identical(mirror.source, mirror.target, "keys", copied) == 200
    assert await assert_identical(mirror.source, mirror.target, "keys-other", other) == 100


async def test_timestamps_outside_the_targets_bounds(mirror: Mirror) -> None:
    forever = {"retention.ms": "-1"}
    strict = {**forever, "message.timestamp.before.max.ms": "3600000"}
    copied = await mirror.topic("times", on_source=forever, on_target=strict)
    await mirror.topic("times-other")
    records = numbered(200)
    records[55] = Sent(b"old", b"of 2001", timestamp_ms=1_000_000_000_000)
    await in_batches(mirror, "times", records, 10)
    await produce(mirror.source, "times-other", 0, numbered(100))
    async with mirror.run() as run:
        await stands_refused(mirror, run, "times", 55, 32)
        await set_configs(mirror.target, copied, forever)
        await run.until_copied()
    assert await assert_identical(mirror.source, mirror.target, "times", copied) == 200


async def test_a_refused_lane_drains_and_resumes_at_the_same_record(mirror: Mirror) -> None:
    copied = await mirror.topic("again", on_target={"cleanup.policy": "compact"})
    await mirror.topic("again-other")
    await produce(mirror.source, "again-other", 0, numbered(10))
    records = numbered(60)
    records[31] = Sent(None, b"no key")
    await in_batches(mirror, "again", records, 10)
    for _ in range(2):
        async with mirror.run() as run:
            await stands_refused(mirror, run, "again", 31, 87)
    await set_configs(mirror.target, copied, {"cleanup.policy": "delete"})
    async with mirror.run() as run:
        await run.until_copied()
    assert await assert_identical(mirror.source, mirror.target, "again", copied) == 60


async def test_a_record_of_five_mib(mirror: Mirror) -> None:
    copied = await mirror.topic("large", on_source={"max.message.bytes": str(8 * MIB)})
    await mirror.topic("large-other")
    await produce(mirror.source, "large", 0, numbered(20))
    await produce(mirror.source, "large", 0, [Sent(b"large", b"x" * 5 * MIB)], max_request_size=16 * MIB)
    await produce(mirror.source, "large", 0, numbered(20, first=20))
    await produce(mirror.source, "large-other", 0, numbered(100))
    async with mirror.run() as run:
        await stands_refused(mirror, run, "large", 20, 10)
        await set_configs(mirror.target, copied, {"max.message.bytes": str(8 * MIB)})
        await run.until_copied()
    assert await assert_identical(mirror.source, mirror.target, "large", copied) == 41


@pytest.mark.parametrize("codec", ["none", "lz4"])
async def test_a_large_batch_of_small_records_is_split(mirror: Mirror, codec: str) -> None:
    topic = f"split-{codec}"
    limit = {"max.message.bytes": str(64 * 1024)}
    copied = await mirror.topic(topic, on_source={"max.message.bytes": str(16 * MIB)}, on_target=limit)
    compression = None if codec == "none" else codec
    await produce(mirror.source, topic, 0, numbered(10), compression_type=compression)
    records = [Sent(b"k%d" % n, b"%x" % (n * 2654435761 % 2**64) * 20) for n in range(8000)]
    await produce_batch(mirror.source, topic, 0, records, compression_type=compression, max_request_size=16 * MIB)
    await produce(mirror.source, topic, 0, numbered(10), compression_type=compression)
    async with mirror.run() as run:
        await run.until_copied()
        assert run.lane(topic).reencoded == 1
    assert await assert_identical(mirror.source, mirror.target, topic, copied) == 8020


@pytest.mark.parametrize(
    ("name", "codec", "limits"),
    [
        ("grown-10", "zstd", {"max.message.bytes": "200000"}),
        ("grown-18", "lz4", {"max.message.bytes": str(8 * MIB), "segment.bytes": str(MIB)}),
    ],
)
async def test_batches_that_grow_on_the_target_are_halved_until_they_fit(
    mirror: Mirror, name: str, codec: str, limits: dict[str, str]
) -> None:
    """The target stores them uncompressed: below its limit on the way, far above in its log."""
    copied = await mirror.topic(name, on_target={"compression.type": "uncompressed", **limits})
    for turn in range(6):
        records = numbered(3000, first=3000 * turn, size_bytes=1000)
        await produce_batch(mirror.source, name, 0, records, compression_type=codec, max_request_size=16 * MIB)
    await produce(mirror.source, name, 0, numbered(100, first=18_000))
    async with mirror.run() as run:
        await run.until_copied()
        assert run.told(RecordRefused) == []
    assert await assert_identical(mirror.source, mirror.target, name, copied) == 18_100


async def test_a_single_record_that_grows_too_large_is_refused_alone(mirror: Mirror) -> None:
    limits = {"compression.type": "uncompressed", "max.message.bytes": "20000"}
    copied = await mirror.topic("grown-one", on_target=limits)
    await mirror.topic("grown-one-other")
    await produce(mirror.source, "grown-one-other", 0, numbered(100))
    records = numbered(100)
    records[60] = Sent(b"large", b"x" * 30_000)
    await produce_batch(mirror.source, "grown-one", 0, records, compression_type="lz4")
    async with mirror.run() as run:
        await stands_refused(mirror, run, "grown-one", 60, 10)
        await run.until(lambda: run.lane("grown-one").source_next == 60, "all records before it are copied")
        await set_configs(mirror.target, copied, {"compression.type": "uncompressed", "max.message.bytes": "100000"})
        await run.until_copied()
    assert await assert_identical(mirror.source, mirror.target, "grown-one", copied) == 100


async def test_a_limit_lowered_while_running(mirror: Mirror) -> None:
    copied = await mirror.topic("lowered")
    await produce_batch(mirror.source, "lowered", 0, numbered(1000))
    async with mirror.run() as run:
        await run.until_copied()
        await set_configs(mirror.target, copied, {"max.message.bytes": "20000"})
        for turn in range(1, 8):
            await produce_batch(mirror.source, "lowered", 0, numbered(1000, first=1000 * turn, size_bytes=60))
        await run.until_copied()
        assert run.told(RecordRefused) == []
    assert await assert_identical(mirror.source, mirror.target, "lowered", copied) == 8000
