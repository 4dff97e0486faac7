"""Every kind of record and batch, copied between real brokers and compared one by one."""

import pytest

from tests.harness.compare import assert_identical, read_topic
from tests.harness.load import Sent, append, numbered, produce, produce_batch, producer
from tests.harness.mirror import Mirror

pytestmark = pytest.mark.integration

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


async def test_five_codecs(mirror: Mirror) -> None:
    for codec in CODECS:
        await mirror.topic(codec, 2)
        for partition in (0, 1):
            options = {"compression_type": None if codec == "none" else codec}
            await produce(mirror.source, codec, partition, numbered(500, size_bytes=200), **options)
    async with mirror.run() as run:
        await run.until_copied()
        assert all(lane.reencoded == 0 for lane in run.progress().lanes)
    for codec in CODECS:
        assert await assert_identical(mirror.source, mirror.target, codec, mirror.copied(codec)) == 1000


ODD = [
    Sent(None, b"no key"),
    Sent(b"no value", None),
    Sent(None, None),
    Sent(b"", b""),
    Sent(b"", None),
    Sent(b"one header", b"x", [("trace", b"abc")]),
    Sent(b"headers that repeat", b"x", [("h", b"1"), ("h", b"2"), ("", b""), ("null", None)]),
    Sent("ключ".encode(), "値".encode(), [("имя", b"\x00\xff")]),
    Sent(b"large", bytes(range(256)) * 400, [("large", b"h" * 5000)]),
    Sent(b"early", b"x", timestamp_ms=0),
    Sent(b"late", b"x", timestamp_ms=4_000_000_000_000),
]


@pytest.mark.parametrize("codec", CODECS)
async def test_odd_records(mirror: Mirror, codec: str) -> None:
    # Timestamps may lie anywhere; retention is off, or the brokers would delete what is old.
    forever = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**63 - 1)}
    copied = await mirror.topic(f"odd-{codec}", on_source=forever, on_target=forever)
    options = {"compression_type": None if codec == "none" else codec}
    await produce_batch(mirror.source, f"odd-{codec}", 0, ODD, **options)
    single = [one for one in ODD if (one.key, one.value) != (None, None)]  # which aiokafka's `send` does not take
    await produce(mirror.source, f"odd-{codec}", 0, single, **options)
    async with mirror.run() as run:
        await run.until_copied()
    assert await assert_identical(mirror.source, mirror.target, f"odd-{codec}", copied) == 2 * len(ODD) - 1


async def test_empty_topics_stay_empty_and_are_copied_once_they_are_not(mirror: Mirror) -> None:
    copied = await mirror.topic("empty", 3)
    async with mirror.run() as run:
        await run.until_copied()
        assert await read_topic(mirror.target, copied) == {0: [], 1: [], 2: []}
        await produce(mirror.source, "empty", 1, numbered(10))
        await run.until_copied()
    assert await assert_identical(mirror.source, mirror.target, "empty", copied) == 10


async def test_two_hundred_partitions(mirror: Mirror) -> None:
    copied = await mirror.topic("wide", 200)
    async with producer(mirror.source) as client:
        for partition in range(200):
            await append(client, "wide", partition, numbered(10, first=partition * 10))
    async with mirror.run() as run:
        await run.until_copied()
    assert await assert_identical(mirror.source, mirror.target, "wide", copied) == 2000


@pytest.mark.parametrize("side", ["source", "target"])
async def test_log_append_time(mirror: Mirror, side: str) -> None:
    configs = {"message.timestamp.type": "LogAppendTime"}
    topic = f"append-time-{side}"
    on_source, on_target = (configs, None) if side == "source" else (None, configs)
    copied = await mirror.topic(topic, on_source=on_source, on_target=on_target)
    for codec in (None, "lz4", "zstd"):
        await produce(mirror.source, topic, 0, numbered(300, size_bytes=50), compression_type=codec)
    async with mirror.run() as run:
        await run.until_copied()
        assert (run.lane(topic).reencoded > 0) is (side == "source")
    # A source's append time arrives as create time; a target with append time stamps anew, which is its owner's wish.
    same = await assert_identical(mirror.source, mirror.target, topic, copied, timestamps=side == "source")
    assert same == 900
