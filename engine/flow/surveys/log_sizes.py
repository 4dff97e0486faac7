"""Measures logs by their batch headers: about how many bytes they hold, and whether they hold records at all."""

from collections.abc import Mapping

from engine.base.errors import ConnectionLost
from engine.core.reports.log_content import ContentRange
from engine.flow.lane.bisection import offsets_by_leaders
from engine.flow.ports.ports import EARLIEST, LATEST, Cluster
from policies.model import TopicPartition

_MOST_BYTES = 16 * 1024 * 1024
"""Bytes that are read of one partition; what follows is projected."""


async def bytes_from(cluster: Cluster, firsts: Mapping[TopicPartition, int]) -> int:
    """Return about how many bytes of records the partitions hold from these offsets on; -1: from their start."""
    led = await cluster.leaders(list(firsts)) if firsts else {}
    ends = await offsets_by_leaders(cluster, led, LATEST)
    starts = await offsets_by_leaders(cluster, led, EARLIEST)
    total = 0
    for one, first in firsts.items():
        begin = max(first, starts.get(one, 0))
        if begin < ends.get(one, -1):
            wanted = ContentRange(first=begin, end=ends[one], since=begin, most_bytes=_MOST_BYTES)
            total += (await cluster.read_content(one, wanted)).projected(begin).bytes
    return total


async def records_between(cluster: Cluster, partition: TopicPartition, first: int, end: int) -> int:
    """Count the committed records of a range; of more than 16 MiB what follows is projected, and it is never empty."""
    wanted = ContentRange(first=first, end=end, since=first, most_bytes=_MOST_BYTES)
    return (await cluster.read_content(partition, wanted)).projected(first).records


async def records_in(cluster: Cluster, partition: TopicPartition) -> int:
    """Count the committed records of a partition as `records_between` does; 0 if it does not exist.

    Raises ConnectionLost, BrokerUnreachable, KafkaRefusal.
    """
    led = await cluster.leaders([partition])
    if not led:
        return 0
    start, end = [await offsets_by_leaders(cluster, led, at) for at in (EARLIEST, LATEST)]
    if partition not in start or partition not in end:
        raise ConnectionLost(f"the leader of {partition} does not say where its log begins and ends")
    first, last = start[partition], end[partition]
    return await records_between(cluster, partition, first, last) if first < last else 0


async def first_record(cluster: Cluster, partition: TopicPartition) -> int | None:
    """Return the offset of the first batch that holds a visible record; None without one. Raises as `records_in`."""
    led = await cluster.leaders([partition])
    at = (await offsets_by_leaders(cluster, led, EARLIEST)).get(partition, -1)
    end = (await offsets_by_leaders(cluster, led, LATEST)).get(partition, -1)
    while 0 <= at < end:
        batches = await cluster.read_headers(partition, at, at + 1)
        found = next((batch.base_offset for batch in batches if not batch.is_control), None)
        if found is not None or not batches:
            return found
        at = batches[-1].next_offset
    return None
