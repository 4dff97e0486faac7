"""Finds records of other writers beyond the newest positions, where a proof compares nothing.

    source   |====== compared ======|- not copied, or no position of it yet -| end
    target   |====== compared ======|- marker -|- in flight -|- strangers ---| end
                                    position

All records of raymirror behind a position come from the producer that the position names, because an owner writes its
position before it appends. So the positions are read once more after the ends: records of any other producer behind
them come from another writer, or were replayed from the quarantine topic.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from engine.base.clock import pause
from engine.core.position.target_tail import TailBatch
from engine.flow.ports.ports import Cluster
from engine.flow.refused.quarantine_reader import QuarantineReader
from engine.flow.topic_logs.map_reader import MapReader
from engine.jobs.proof.model import DifferenceKind, RecordDifference
from policies.model import LaneName

TRIES, AGAIN_S = 2, 0.7
"""Reads of records that seem to be another writer's, and seconds between two reads: a position may appear by then."""
MOST_OFFSETS = 100_000
"""Offsets of one partition whose batch headers are read; offsets behind them are only counted."""
MOST_TOLD = 1_000
ANOTHER_WRITER = "of another writer, behind the newest position"
Stretch = tuple[int, int]


class BeyondStretch(NamedTuple):
    """The stretch of a target's log behind the position, up to which it was compared, and the start of the log."""

    position: int
    end: int
    log_start: int


class BeyondScan:
    """Finds the records of other writers behind the newest positions of lanes."""

    def __init__(self, target: Cluster, maps: MapReader, quarantine: QuarantineReader) -> None:
        self._target, self._maps, self._quarantine = target, maps, quarantine

    async def find(self, lanes: Mapping[LaneName, BeyondStretch]) -> dict[LaneName, tuple[Stretch, ...]]:
        """Return ranges [first, end) by lane, for lanes that have any. Raises ConnectionLost, BrokerUnreachable."""
        left = {lane: one for lane, one in lanes.items() if one.position < one.end}
        found: dict[LaneName, tuple[Stretch, ...]] = {}
        for attempt in range(TRIES):
            if not left:
                break
            if attempt:
                await pause(AGAIN_S)
            await self._maps.follow()
            found = {lane: ranges for lane, one in left.items() if (ranges := await self._of(lane, one))}
            left = {lane: left[lane] for lane in found}
        return found

    async def _of(self, lane: LaneName, behind: BeyondStretch) -> tuple[Stretch, ...]:
        head, producer = self._maps.head(lane.source), self._maps.producer(lane.source)
        if head is None or producer is None:
            return ()
        first = max(behind.position, head.target_next, behind.log_start)
        end = min(behind.end, first + MOST_OFFSETS)
        if first >= end:
            return ()
        batches = await self._target.read_headers(lane.target, first, end)
        if foreign_ranges(batches, producer, (first, end)):
            replayers = await self._quarantine.replayers()
            batches = [batch for batch in batches if batch.producer_id not in replayers]
        return foreign_ranges(batches, producer, (first, end))


def foreign_ranges(batches: Sequence[TailBatch], producer_id: int, within: Stretch) -> tuple[Stretch, ...]:
    """Return the ranges of records that another producer wrote; adjacent ranges are joined. Pure."""
    found: list[Stretch] = []
    for batch in batches:
        first, end = max(batch.base_offset, within[0]), min(batch.next_offset, within[1])
        if batch.is_control or batch.is_open or batch.producer_id == producer_id or first >= end:
            continue
        if found and found[-1][1] == first:
            first = found.pop()[0]
        found.append((first, end))
    return tuple(found)


def differences_of(lane: LaneName, ranges: Sequence[Stretch]) -> list[RecordDifference]:
    """Name each record of another writer: the first `MOST_TOLD`, and how many follow."""
    offsets = [offset for first, end in ranges for offset in range(first, min(end, first + MOST_TOLD))][:MOST_TOLD]
    rest = size(ranges) - len(offsets)
    return [
        RecordDifference(
            topic=lane.source.topic,
            partition=lane.source.partition,
            source_offset=-1,
            target_topic=lane.target.topic,
            target_offset=offset,
            kind=DifferenceKind.EXTRA,
            what=ANOTHER_WRITER if offset != offsets[-1] or not rest else f"{ANOTHER_WRITER}, and {rest:,} behind it",
        )
        for offset in offsets
    ]


def size(ranges: Sequence[Stretch]) -> int:
    """Count the offsets."""
    return sum(end - first for first, end in ranges)
