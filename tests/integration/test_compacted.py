"""Compacted sources, cleaned for real: holes, emptied batches, tombstones with and without a delete horizon."""

import pytest

from tests.harness.compaction import COMPACTED, settle
from tests.harness.compare import assert_identical, read_topic
from tests.harness.load import Sent, numbered, produce, produce_batch
from tests.harness.mirror import Mirror
from tests.harness.segments import batches

pytestmark = pytest.mark.integration


async def test_tombstones_before_any_cleaning(mirror: Mirror) -> None:
    compact = {"cleanup.policy": "compact"}
    copied = await mirror.topic("tombstones", on_source=compact, on_target=compact)
    records = [Sent(b"k%d" % (n % 20), None if n % 3 == 0 else b"v%d" % n) for n in range(300)]
    await produce(mirror.source, "tombstones", 0, records, compression_type="lz4")
    async with mirror.run() as run:
        await run.until_copied()
    assert await assert_identical(mirror.source, mirror.target, "tombstones", copied) == 300


@pytest.mark.parametrize("codec", ["none", "zstd"])
async def test_holes_emptied_batches_and_delete_horizons(mirror: Mirror, codec: str) -> None:
    topic = f"cleaned-{codec}"
    copied = await mirror.topic(topic, on_source=COMPACTED)
    options = {"compression_type": None if codec == "none" else codec, "enable_idempotence": True}
    # The last batch of an idempotent producer stays, emptied, to keep its sequence.
    await produce_batch(mirror.source, topic, 0, numbered(50))
    await produce(mirror.source, topic, 0, numbered(50), **options)
    await produce(mirror.source, topic, 0, numbered(20, first=2000), **options)
    await produce(mirror.source, topic, 0, numbered(20, first=2000))
    await produce(mirror.source, topic, 0, [*numbered(25), *numbered(100, first=500)], **options)
    await produce(mirror.source, topic, 0, [Sent(b"k%d" % n, None) for n in range(500, 520)], **options)
    await produce(mirror.source, topic, 0, numbered(10, first=1000), **options)
    log = await settle(mirror.source, topic, keep=50 + 20 + 100 + 10 + 2)
    assert any(one.record_count == 0 for one in log), "no batch was emptied"
    assert any(one.has_holes for one in log), "no batch has holes"
    assert any(one.has_delete_horizon for one in log), "no batch has a delete horizon"
    async with mirror.run() as run:
        await run.until_copied()
        lane = run.lane(topic)
        assert lane.reencoded > 0
        assert lane.skipped > 0
    assert not any(one.has_delete_horizon for one in batches(mirror.target, copied))
    tombstones = [one for one in (await read_topic(mirror.target, copied))[0] if one.value is None]
    assert len(tombstones) == 20
    await assert_identical(mirror.source, mirror.target, topic, copied)


async def test_a_source_cleaned_between_two_runs(mirror: Mirror) -> None:
    copied = await mirror.topic("between", on_source=COMPACTED)
    await produce(mirror.source, "between", 0, numbered(200, keys=20))
    async with mirror.run(drain=False) as run:
        await run.until_copied()
    first = (await read_topic(mirror.target, copied))[0]
    await produce(mirror.source, "between", 0, numbered(40, first=200, keys=20))
    await settle(mirror.source, "between", keep=22)
    left = (await read_topic(mirror.source, "between"))[0]
    async with mirror.run() as run:
        await run.until_copied()
    # Offsets 0 to 199 were copied before the cleaning; of what came later, the cleaner left what `left` shows.
    after = [one for one in left if one.key == b"roll" or int((one.value or b"v0").split()[0][1:]) >= 200]
    assert (await read_topic(mirror.target, copied))[0] == first + after
