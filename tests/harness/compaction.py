"""Topics that the broker's cleaner has really worked on."""

import asyncio

from deploy.local.cluster import Cluster
from engine.clock import now_s
from tests.harness.load import Sent, produce
from tests.harness.segments import Batch, batches

COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": "100",
    "segment.ms": "100",
}
_DEADLINE_S = 180.0


async def settle(cluster: Cluster, topic: str, *, keep: int) -> list[Batch]:
    """Roll segments and wait until the cleaner has left at most `keep` records; return what the log then holds.

    The cleaner never touches the active segment, so records with keys of their own are appended until it has done.
    """
    give_up_at = now_s() + _DEADLINE_S
    rolled = 0
    while now_s() < give_up_at:
        await produce(cluster, topic, 0, [Sent(b"roll", b"%d" % rolled)])
        rolled += 1
        await asyncio.sleep(0.15)  # segment.ms of the topic: the next record opens another segment
        found = batches(cluster, topic)
        if sum(one.record_count for one in found) <= keep:
            return found
    raise AssertionError(f"{topic}: the cleaner left {sum(one.record_count for one in found)} records, expected {keep}")
