"""Finds the leader epoch of the last record before an offset, by asking where epochs end (KIP-320).

A position that is set by hand names an offset and no record. Without an epoch nothing could show later whether the log
is still the one that was copied.
"""

from collections.abc import Mapping

from engine.flow.ports.ports import Cluster
from policies.model import TopicPartition

_MOST = 64
"""Epochs that are asked for, from the newest one downwards; what lies in an older one has no known epoch."""


async def epochs_before(cluster: Cluster, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the leader epoch of the last record before each offset; partitions without a known one are left out.

    Raises ConnectionLost, BrokerUnreachable, KafkaRefusal.
    """
    wanted = {one: offset for one, offset in offsets.items() if offset > 0}
    led = await cluster.leaders(sorted(wanted)) if wanted else {}
    asked = {one: leader.epoch for one, leader in led.items() if leader.epoch >= 0}
    found: dict[TopicPartition, int] = {}
    for _ in range(_MOST):
        if not asked:
            break
        ends = await cluster.epoch_ends(asked)
        upper = {one: end.epoch for one, end in ends.items() if end.epoch >= 0 and wanted[one] <= end.end}
        before = await cluster.epoch_ends({one: epoch - 1 for one, epoch in upper.items() if epoch > 0})
        begins = {
            one: before[one].end if one in before else 0 for one, epoch in upper.items() if epoch == 0 or one in before
        }
        found |= {one: upper[one] for one, begin in begins.items() if wanted[one] > begin}
        asked = {one: upper[one] - 1 for one, begin in begins.items() if wanted[one] <= begin and upper[one] > 0}
    return found
