"""The right answer: reads both logs by a stock client, matches records by content, and compares offsets."""

import asyncio
from bisect import bisect_left

import msgspec

from bench.reading import read_partition

_DEADLINE_S = 600.0


class Log(msgspec.Struct, frozen=True):
    """The committed records of one partition: offsets and values, in order."""

    offsets: list[int]
    values: list[bytes]


async def read_log(address: str, topic: str, partition: int) -> Log:
    """Read a whole partition, committed records only; raises TimeoutError."""
    async with asyncio.timeout(_DEADLINE_S):
        records = await read_partition(address, topic, partition, isolation_level="read_committed")
    return Log([one.offset for one in records], [one.value for one in records])


class Judge:
    """One partition and its copy. Raises ValueError unless the copy holds the source's records in order."""

    def __init__(self, source: Log, target: Log) -> None:
        if source.values != target.values:
            raise ValueError(f"the copy has {len(target.values)} records, the source {len(source.values)}, or others")
        self._source, self._target = source.offsets, target.offsets

    def repeated(self, source_offset: int, target_offset: int) -> int:
        """Return how many records a consumer that moves to `target_offset` reads again; below zero: how many it skips.

        Offsets between the same two records are the same place.
        """
        return bisect_left(self._source, source_offset) - bisect_left(self._target, target_offset)
