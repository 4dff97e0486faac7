"""Asks about many partitions at once, and about each half after a refusal: a refused partition hides no other."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeVar

from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.base.tasks import run_all
from engine.flow.ports.ports import EARLIEST, LATEST, Cluster, Leader
from policies.model import TopicPartition

T = TypeVar("T")


async def bisect_on_error(
    ask: Callable[[Sequence[TopicPartition]], Awaitable[dict[TopicPartition, T]]], partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, T]:
    """Ask for all, and after a refusal for each half; a partition without an answer is not in the result."""
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
        first = await bisect_on_error(ask, partitions[:middle])
        return first | await bisect_on_error(ask, partitions[middle:])


async def by_leaders(
    ask: Callable[[Sequence[TopicPartition]], Awaitable[dict[TopicPartition, T]]], led: Mapping[TopicPartition, Leader]
) -> dict[TopicPartition, T]:
    """Ask each leader about its partitions (`bisect_on_error`); an unreachable leader hides only its partitions."""
    by_node: dict[int, list[TopicPartition]] = {}
    for partition, leader in led.items():
        if leader.node >= 0:
            by_node.setdefault(leader.node, []).append(partition)
    found: dict[TopicPartition, T] = {}

    async def one(partitions: list[TopicPartition]) -> None:
        found.update(await bisect_on_error(ask, partitions))

    await run_all(*(one(partitions) for partitions in by_node.values()))
    return found


async def offsets_by_leaders(
    cluster: Cluster, led: Mapping[TopicPartition, Leader], timestamp_ms: int
) -> dict[TopicPartition, int]:
    """Ask each leader for the offsets at a timestamp."""
    return await by_leaders(lambda some: cluster.offsets(some, timestamp_ms), led)


async def offsets_bisecting(
    cluster: Cluster, partitions: Sequence[TopicPartition], timestamp_ms: int
) -> dict[TopicPartition, int]:
    """Ask for the offsets at a timestamp."""
    return await bisect_on_error(lambda some: cluster.offsets(some, timestamp_ms), partitions)


async def log_spans(cluster: Cluster, partitions: Collection[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
    """Return log start and high watermark of the partitions whose leaders answer for both.

    Raises ConnectionLost, BrokerUnreachable if no broker names the leaders.
    """
    led = await cluster.leaders(sorted(partitions)) if partitions else {}
    starts = await offsets_by_leaders(cluster, led, EARLIEST)
    ends = await offsets_by_leaders(cluster, led, LATEST)
    return {one: (start, ends[one]) for one, start in starts.items() if one in ends}
