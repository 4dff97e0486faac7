"""Finds what MM2 copied to the target after its last position, by the content of the records."""

import asyncio
from array import array
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from engine.base.errors import KafkaRefusal
from engine.core.offset_map.map_runs import MapRun, join_runs
from engine.core.position.takeover import BehindPosition, copied_behind, fingerprint
from engine.flow.ports.ports import Cluster
from policies.model import LaneName, TopicPartition

_BEFORE = 256
"""Source offsets compared before the position."""
_WINDOWS = (4_096, 65_536, 1_000_000)
"""Records compared after it, in growing windows until the answer is certain: MM2 writes positions once a minute."""
_STAMP = "message.timestamp.type"


class TakenOver(msgspec.Struct, frozen=True, kw_only=True):
    """Where to continue, after the last record on the target; `twice`: offsets (inclusive) that may be there twice."""

    source_next: int
    records: int
    twice: tuple[int, int] | None = None
    copied: tuple[MapRun, ...] = ()
    """The target offset of each of these records."""


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets of both logs around a position of MM2's: log starts and ends, the position's next offset."""

    source_start: int
    source_next: int
    source_end: int
    target_start: int
    target_end: int


class LogStarts(NamedTuple):
    """The first offsets that both logs have."""

    source: int
    target: int


class Takeover:
    """Compares both logs; `read_committed`: whether MM2 copied with that isolation level."""

    def __init__(self, source: Cluster, target: Cluster, *, read_committed: bool) -> None:
        self._source = source
        self._target = target
        self._read_committed = read_committed

    async def find(self, name: LaneName, reach: Reach) -> TakenOver:
        """Find what MM2 copied after its position; raises as the reads of `Cluster` do."""
        most = min(reach.source_end - reach.source_next, reach.target_end - reach.target_start)
        if most <= 0 or reach.source_next < reach.source_start:
            return TakenOver(source_next=reach.source_next, records=0)
        timed = await self._keeps_times(name.target.topic)
        earliest = max(reach.source_start, reach.source_next - _BEFORE)
        _, before = await self._mm2_prints(self._source, name.source, earliest, reach.source_next, timed=timed)
        for window in _WINDOWS:
            end = min(reach.source_end, reach.source_next + window)
            offsets, source = await self._mm2_prints(self._source, name.source, reach.source_next, end, timed=timed)
            first = max(reach.target_start, reach.target_end - window - _BEFORE)
            places, target = await self._mm2_prints(self._target, name.target, first, reach.target_end, timed=timed)
            whole = earliest == first == 0
            behind = await asyncio.to_thread(copied_behind, before, source, target, whole=whole, timed=timed)
            if behind.proven or window >= most:
                break
        return _taken(reach.source_next, offsets, places, behind)

    async def holds(self, name: LaneName, runs: Sequence[MapRun], starts: LogStarts) -> bool | None:
        """Whether the records of ascending runs are the same on both sides; raises as the reads of `Cluster` do.

        Records that one side has no more are not compared; None if no record is left to compare. Both logs are read as
        they are: an open transaction of others hides no record that the map has.
        """
        equal = await self._are_equal(name, runs, starts, timed=True)
        if equal is not False or await self._keeps_times(name.target.topic):
            return equal
        return await self._are_equal(name, runs, starts, timed=False)

    async def _are_equal(
        self, name: LaneName, runs: Sequence[MapRun], starts: LogStarts, *, timed: bool
    ) -> bool | None:
        first, last = runs[0], runs[-1]
        begin, end = max(first.source, starts.source), last.source + last.count
        ours = await _prints(self._source, name.source, begin, end, timed=timed)
        begin, end = max(first.target, starts.target), last.target + last.count
        theirs = await _prints(self._target, name.target, begin, end, timed=timed)
        known, there = (dict(zip(*prints, strict=True)) for prints in (ours, theirs))
        pairs = ((run.source + step, run.target + step) for run in runs for step in range(run.count))
        equal = [known[source] == there[target] for source, target in pairs if source in known and target in there]
        return all(equal) if equal else None

    async def _mm2_prints(
        self, cluster: Cluster, partition: TopicPartition, first: int, end: int, *, timed: bool
    ) -> tuple["array[int]", "array[int]"]:
        return await _prints(cluster, partition, first, end, timed=timed, committed=self._read_committed)

    async def _keeps_times(self, topic: str) -> bool:
        """Whether the target stores the times that it gets, and not its own; without the right to know, it may not."""
        try:
            configs = await self._target.topic_configs([topic], [_STAMP])
        except KafkaRefusal:
            return False
        return configs[topic].get(_STAMP) != "LogAppendTime"


async def _prints(
    cluster: Cluster, partition: TopicPartition, first: int, end: int, *, timed: bool, committed: bool = False
) -> tuple["array[int]", "array[int]"]:
    """Return offsets and fingerprints of the records from `first` up to `end`."""
    offsets, prints = array("q"), array("q")
    async for records in cluster.read_log(partition, first, end, committed=committed):
        offsets.extend(record.offset for record in records)
        prints.extend(fingerprint(record, timed=timed) for record in records)
    return offsets, prints


def _taken(source_next: int, offsets: "array[int]", places: "array[int]", behind: BehindPosition) -> TakenOver:
    if behind.records is None:
        last = min(behind.doubtful, len(offsets))
        twice = (source_next, offsets[last - 1]) if last else None
        return TakenOver(source_next=source_next, records=0, twice=twice)
    records = behind.records
    if not records:
        return TakenOver(source_next=source_next, records=0)
    copied = join_runs(MapRun(*pair, 1) for pair in zip(offsets[:records], places[-records:], strict=True))
    return TakenOver(source_next=offsets[records - 1] + 1, records=records, copied=copied)
