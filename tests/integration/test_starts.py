"""The first offset of a lane without a position, and that it is stored."""

import pytest

from engine.core.events.events import Resumed
from policies.model import TopicPartition
from policies.start import Duration, Earliest, Latest, Offsets, Start, Timestamp
from tests.harness.admin import delete_records
from tests.harness.compare import assert_identical, read_topic
from tests.harness.load import Sent, numbered, produce
from tests.harness.mirror import Mirror

pytestmark = pytest.mark.integration


def begin(mirror: Mirror, rule: Start) -> None:
    mirror.start = lambda _topic: rule


async def test_latest_copies_only_what_comes_and_is_remembered(mirror: Mirror) -> None:
    begin(mirror, Latest())
    copied = await mirror.topic("latest", 2)
    for partition in (0, 1):
        await produce(mirror.source, "latest", partition, numbered(50))
    async with mirror.run() as run:
        await run.until(lambda: len({one.lane for one in run.told(Resumed)}) == 2, "both lanes owned")
    await produce(mirror.source, "latest", 0, numbered(20, first=50))  # while nobody runs
    begin(mirror, Earliest())  # no longer asked: the resolved start was written down
    async with mirror.run() as run:
        await run.until_copied()
        await produce(mirror.source, "latest", 1, numbered(20, first=50))
        await run.until_copied()
    after = {0: 50, 1: 50}
    assert await assert_identical(mirror.source, mirror.target, "latest", copied, after=after) == 40


async def test_a_resolved_start_is_written_before_the_first_record(mirror: Mirror) -> None:
    begin(mirror, Latest())
    await mirror.topic("written")
    await produce(mirror.source, "written", 0, numbered(7))
    async with mirror.run(drain=False) as run:
        await run.until(
            lambda: run.copier.drivers[TopicPartition("written", 0)].positions.settled, "the position is durable"
        )
    positions = await read_topic(mirror.target, mirror.positions_topic)
    (one,) = [record for records in positions.values() for record in records]
    assert one.key == b'["MirrorSourceConnector",{"cluster":"%s","partition":0,"topic":"written"}]' % (
        mirror.flow.source.encode()
    )
    assert b'"offset":6' in (one.value or b"")


async def test_timestamp_and_duration(mirror: Mirror) -> None:
    now_ms = 1_750_000_000_000
    forever = {"retention.ms": "-1"}
    for topic in ("instant", "younger", "since"):
        await mirror.topic(topic, on_source=forever, on_target=forever)
        records = [Sent(b"k%d" % n, b"v", timestamp_ms=now_ms + n * 1000) for n in range(100)]
        await produce(mirror.source, topic, 0, records)
    await produce(mirror.source, "since", 0, numbered(10))
    rules: dict[str, Start] = {
        "instant": Timestamp(now_ms + 40_500),
        "younger": Timestamp(now_ms + 1_000_000),
        "since": Duration(3600.0),
    }
    mirror.start = rules.__getitem__
    async with mirror.run() as run:
        await run.until_copied()
    for topic, left_out in (("instant", 41), ("younger", 100), ("since", 100)):
        await assert_identical(mirror.source, mirror.target, topic, mirror.copied(topic), after={0: left_out})


async def test_offsets_in_the_middle_of_a_batch_and_earliest_behind_deleted_records(mirror: Mirror) -> None:
    begin(mirror, Offsets({0: 33}))
    copied = await mirror.topic("offsets", 2)
    for partition in (0, 1):
        await produce(mirror.source, "offsets", partition, numbered(100), compression_type="zstd")
    await delete_records(mirror.source, "offsets", {1: 25})
    async with mirror.run() as run:
        await run.until_copied()
        assert run.lane("offsets", 0).reencoded == 1
    assert await assert_identical(mirror.source, mirror.target, "offsets", copied, after={0: 33}) == 67 + 75
