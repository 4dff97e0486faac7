"""Producer sequences wrap at 2^31 - 1: a copy crosses the wrap, is cut off behind it, and continues."""

from collections.abc import Sequence

import msgspec
import pytest

from deploy.local.cluster import EmbeddedCluster
from engine.core.events.events import Resumed, UnfencedOwnership
from engine.core.position.position import SEQUENCE_SPAN
from engine.flow.ports.ports import Producer
from engine.kafka.gateway import KafkaCluster
from policies.model import TopicPartition
from tests.harness.compare import assert_identical
from tests.harness.load import pour
from tests.harness.mirror import Mirror
from tests.harness.segments import batches

pytestmark = [pytest.mark.integration, pytest.mark.fault]

PARTITIONS, COUNT = 3, 30_000


class NearTheWrap(KafkaCluster):
    """A target that allows no transactional ids; a broker without state of a producer takes any first sequence."""

    async def acquire(self, transactional_id: str, partitions: Sequence[TopicPartition]) -> Producer:
        """Take a new producer id, a few thousand records before its sequences wrap."""
        fresh = await super().acquire(transactional_id, partitions)
        producer_id = fresh.producer_id + 1_000_000  # no broker has heard of it, so it has no sequence to continue
        return msgspec.structs.replace(
            fresh, producer_id=producer_id, epoch=0, fenced=False, first_sequence=SEQUENCE_SPAN - 2_000
        )

    async def enter(self, transactional_id: str) -> Producer:
        """Take no epoch without a barrier either."""
        return msgspec.structs.replace(await super().enter(transactional_id), fenced=False)


async def test_a_copy_across_the_wrap(pair: tuple[EmbeddedCluster, EmbeddedCluster]) -> None:
    # No position between the first ones and the cut: all that was copied is the tail.
    mirror = Mirror(
        *pair, alias="wrap", partition_fetch_bytes=32 * 1024, flush_s=3600.0, unsynced_s=3600.0, epoch_s=3600.0
    )
    mirror.target_port = NearTheWrap
    await mirror.open()
    copied = await mirror.topic("wrap", PARTITIONS)
    await pour(mirror.source, "wrap", COUNT, batch_bytes=8192)
    async with mirror.run(drain=False) as run:
        await run.until_copied()
        assert len({one.lane for one in run.told(UnfencedOwnership)}) == PARTITIONS
    for partition in range(PARTITIONS):
        sequences = [one.base_sequence for one in batches(mirror.target, copied, partition) if not one.is_control]
        assert sequences[0] == SEQUENCE_SPAN - 2_000
        assert min(sequences) < 10_000, "the sequences did not wrap"
    assert await assert_identical(mirror.source, mirror.target, "wrap", copied) == COUNT
    await pour(mirror.source, "wrap", COUNT, batch_bytes=8192)
    mirror.target_port = KafkaCluster
    async with mirror.run() as run:
        await run.until(lambda: len({one.lane for one in run.told(Resumed)}) == PARTITIONS, "all lanes resumed")
        assert sum(event.tail_records for event in run.told(Resumed)) == COUNT
        await run.until_copied()
    assert await assert_identical(mirror.source, mirror.target, "wrap", copied) == 2 * COUNT
