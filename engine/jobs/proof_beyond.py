"""What lies beyond the newest positions, where a proof compares nothing: how much, and what of it others have written.

    source   |====== compared ======|- not copied, or not written down yet -| end
    target   |====== compared ======|- marker -|- on its way -|- strangers -| end
                                    position

Everything of ours behind a position was written by the producer that the position names: an owner writes its position
before it appends. So the positions are read once more after the ends, and another producer there is another writer.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from engine.clock import pause
from engine.core.resume import TailBatch
from engine.flow.map_reader import MapReader
from engine.flow.ports import Cluster
from engine.jobs.proof_terms import Difference, Kind
from policies.model import LaneName

TRIES, AGAIN_S = 2, 0.7
"""Looks at what seems to be another writer's: a position may be written meanwhile."""
MOST_OFFSETS = 100_000
"""Offsets of one partition whose headers are read; what lies behind them is counted only."""
MOST_TOLD = 1_000
ANOTHER_WRITER = "of another writer, behind the newest position"
Stretch = tuple[int, int]


class Behind(NamedTuple):
    """The stretch of a target behind the position that was compared up to, and where its log begins."""

    position: int
    end: int
    log_start: int


class Strangers:
    """Finds what another writer has put behind the newest positions of lanes."""

    def __init__(self, target: Cluster, maps: MapReader) -> None:
        self._target, self._maps = target, maps

    async def find(self, lanes: Mapping[LaneName, Behind]) -> dict[LaneName, tuple[Stretch, ...]]:
        """Return ranges [first, end) by lane, of lanes that have any. Raises ConnectionLost, BrokerUnreachable."""
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

    async def _of(self, lane: LaneName, behind: Behind) -> tuple[Stretch, ...]:
        head, producer = self._maps.head(lane.source), self._maps.producer(lane.source)
        if head is None or producer is None:
            return ()
        first = max(behind.position, head.target_next, behind.log_start)
        end = min(behind.end, first + MOST_OFFSETS)
        if first >= end:
            return ()
        return foreign_ranges(await self._target.read_headers(lane.target, first, end), producer, (first, end))


def foreign_ranges(batches: Sequence[TailBatch], producer_id: int, within: Stretch) -> tuple[Stretch, ...]:
    """Return the ranges of records that another producer wrote, those that follow each other put together. Pure."""
    found: list[Stretch] = []
    for batch in batches:
        first, end = max(batch.base_offset, within[0]), min(batch.next_offset, within[1])
        if batch.is_control or batch.is_open or batch.producer_id == producer_id or first >= end:
            continue
        if found and found[-1][1] == first:
            first = found.pop()[0]
        found.append((first, end))
    return tuple(found)


def told(lane: LaneName, ranges: Sequence[Stretch]) -> list[Difference]:
    """Name each record of another writer; of very many the first ones, and how many follow."""
    offsets = [offset for first, end in ranges for offset in range(first, min(end, first + MOST_TOLD))][:MOST_TOLD]
    rest = size(ranges) - len(offsets)
    return [
        Difference(
            topic=lane.source.topic,
            partition=lane.source.partition,
            source_offset=-1,
            target_topic=lane.target.topic,
            target_offset=offset,
            kind=Kind.EXTRA,
            what=ANOTHER_WRITER if offset != offsets[-1] or not rest else f"{ANOTHER_WRITER}, and {rest:,} behind it",
        )
        for offset in offsets
    ]


def size(ranges: Sequence[Stretch]) -> int:
    """Count the offsets."""
    return sum(end - first for first, end in ranges)
