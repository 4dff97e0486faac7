"""Finds records that another writer appended after the last copied record: what a lane will find when it resumes.

    target   |... copied ...|- marker -|- raymirror's, not in a position yet -|- another writer's -| end
                         position

After a position, raymirror's records are those of the producer that the position names (`core/position/resume.py`).
This module writes nothing and compares no contents. A lane that resumes does compare: it recognises the copies of an
MM2 that continued from the position, and continues after them.
"""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.base.tasks import run_all
from engine.core.position.position import Position
from engine.core.position.target_tail import TailBatch, ranges_of
from engine.flow.lane.bisection import log_spans
from engine.flow.ports.ports import Cluster
from engine.flow.refused.quarantine_reader import Replayers
from policies.model import LaneName

MOST_OFFSETS = 100_000
"""Most offsets read of one partition: the caller waits, and headers are only read together with their records."""
_AT_ONCE = 8
_NOT_TOLD = "its leader does not report the start and end of its log"


class OtherWriter(msgspec.Struct, frozen=True, kw_only=True):
    """Records of another writer in one target partition, at offsets `first` to `last` (inclusive).

    `whole`: whether the log was read to its end; else more records may follow.
    """

    topic: str
    partition: int
    target_topic: str
    first: int
    last: int
    records: int
    whole: bool = True


class OtherWriters(msgspec.Struct, frozen=True, kw_only=True):
    """Records of other writers; `unknown`: target partitions that could not be read, and why.

    `stops`: whether lanes that find such records stop (`raymirror.foreign.writer`).
    """

    found: tuple[OtherWriter, ...] = ()
    unknown: dict[str, str] = {}
    stops: bool = True


async def other_writers(
    target: Cluster, positions: Mapping[LaneName, Position], replayers: Replayers, *, stops: bool
) -> OtherWriters:
    """Read what follows lanes' positions, without replayed records.

    Raises ConnectionLost, BrokerUnreachable if no broker names the leaders.
    """
    spans = await log_spans(target, {lane.target for lane in positions})
    found: dict[LaneName, OtherWriter] = {}
    unknown = {str(lane.target): _NOT_TOLD for lane in positions if lane.target not in spans}
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def look(lane: LaneName) -> None:
        async with at_once:
            try:
                one = await _look(target, lane, positions[lane], spans[lane.target], replayers)
            except (BrokerUnreachable, ConnectionLost, KafkaRefusal) as failure:
                unknown[str(lane.target)] = str(failure)
                return
        if one is not None:
            found[lane] = one

    await run_all(*(look(lane) for lane in positions if lane.target in spans))
    return OtherWriters(found=tuple(found[lane] for lane in sorted(found)), unknown=unknown, stops=stops)


async def _look(
    target: Cluster, lane: LaneName, position: Position, span: tuple[int, int], replayers: Replayers
) -> OtherWriter | None:
    first = max(position.target_next, span[0])
    end = min(span[1], first + MOST_OFFSETS)
    if first >= end:
        return None
    found = _ranges(await target.read_headers(lane.target, first, end), position.producer_id, first)
    ranges = await replayers.others(lane.target, tuple(found))
    if not ranges:
        return None
    return OtherWriter(
        topic=lane.source.topic,
        partition=lane.source.partition,
        target_topic=lane.target.topic,
        first=ranges[0][0],
        last=ranges[-1][1],
        records=sum(last - at + 1 for at, last in ranges),
        whole=end == span[1],
    )


def _ranges(batches: Sequence[TailBatch], producer_id: int, first: int) -> list[tuple[int, int]]:
    """Return the inclusive offset ranges of another producer, from an offset on: a batch may begin before it."""
    others = [one for one in batches if one.producer_id != producer_id and one.next_offset > first]
    return [(max(at, first), last) for at, last in ranges_of(others)]
