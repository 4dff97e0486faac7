"""Reads the first records of a range, and no more of the log than that."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

from engine.flow.ports.ports import Cluster
from engine.wire.record import Record
from policies.model import TopicPartition


async def read_some(cluster: Cluster, partition: TopicPartition, first: int, end: int, count: int) -> list[Record]:
    """Return at most `count` committed records from offset `first` up to `end`. Raises what `read_log` raises."""
    found: list[Record] = []
    if end <= first:
        return found
    reading = cast("AsyncGenerator[list[Record], None]", cluster.read_log(partition, first, end, committed=True))
    async with aclosing(reading) as log:
        async for records in log:
            found += [record for record in records if first <= record.offset < end]
            if len(found) >= count:
                break
    return found[:count]
