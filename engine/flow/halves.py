"""What is asked of many partitions where one that is refused, or cannot be asked about, hides no other."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from engine.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.flow.ports import Cluster
from policies.model import TopicPartition

T = TypeVar("T")


async def by_halves(
    ask: Callable[[Sequence[TopicPartition]], Awaitable[dict[TopicPartition, T]]], partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, T]:
    """Ask for all, and after a refusal for each half; a partition that is not answered for is not in the result."""
    if not partitions:
        return {}
    try:
        return await ask(partitions)
    except (ConnectionLost, BrokerUnreachable):
        return {}
    except KafkaRefusal:
        middle = len(partitions) // 2
        if not middle:
            return {}
        first = await by_halves(ask, partitions[:middle])
        return first | await by_halves(ask, partitions[middle:])


async def offsets_by_halves(
    cluster: Cluster, partitions: Sequence[TopicPartition], timestamp_ms: int
) -> dict[TopicPartition, int]:
    """Ask for the offsets at a timestamp."""
    return await by_halves(lambda some: cluster.offsets(some, timestamp_ms), partitions)
