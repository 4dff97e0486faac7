"""Topics that the broker's log cleaner has really cleaned."""

import asyncio

from deploy.local.cluster import EmbeddedCluster
from engine.base.clock import now_s
from tests.harness.load import Sent, produce
from tests.harness.segments import Batch, batches

COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": "100",
    "segment.ms": "100",
}
_DEADLINE_S = 180.0
_SEGMENT_S, _LOOK_S, _MOST_S = 0.15, 0.05, 10.0
"""`segment.ms` has passed; between two looks; how long the cleaner has, at most, before the next roll adds a record."""


async def settle(cluster: EmbeddedCluster, topic: str, *, keep: int) -> list[Batch]:
    """Roll segments and wait until the cleaner has left at most `keep` records; return what the log then holds.

    The cleaner never touches the active segment, so records with keys of their own are appended until it has done.
    """
    give_up_at = now_s() + _DEADLINE_S
    rolled, patience_s = 0, _SEGMENT_S
    while now_s() < give_up_at:
        await produce(cluster, topic, 0, [Sent(b"roll", b"%d" % rolled)])
        rolled += 1
        roll_at = now_s() + patience_s
        patience_s = min(_MOST_S, 2 * patience_s)  # a slow machine's cleaner would never come to the end of its work
        while now_s() < roll_at:
            await asyncio.sleep(_LOOK_S)
            found = batches(cluster, topic)
            if sum(one.record_count for one in found) <= keep:
                return found
    raise AssertionError(f"{topic}: the cleaner left {sum(one.record_count for one in found)} records, expected {keep}")
