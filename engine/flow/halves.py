"""Offsets of many partitions where one that is refused, or cannot be asked about, hides no other."""

from collections.abc import Sequence

from engine.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.flow.ports import Cluster
from policies.model import TopicPartition


async def offsets_by_halves(
    cluster: Cluster, partitions: Sequence[TopicPartition], timestamp_ms: int
) -> dict[TopicPartition, int]:
    """Ask for all, and after a refusal for each half; a partition that is not answered for is not in the result."""
    if not partitions:
        return {}
    try:
        return await cluster.offsets(partitions, timestamp_ms)
    except (ConnectionLost, BrokerUnreachable):
        return {}
    except KafkaRefusal:
        middle = len(partitions) // 2
        if not middle:
            return {}
        first = await offsets_by_halves(cluster, partitions[:middle], timestamp_ms)
        return first | await offsets_by_halves(cluster, partitions[middle:], timestamp_ms)
