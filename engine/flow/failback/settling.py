"""Finds where the copy of each lane ended, exactly: behind a barrier on the target, by position and tail.

    target   ... copied  copied | marker | new new new
                               ^ the end of the copy

A position may be a minute old, and applications may have written behind the copy. So the batches after the position
are read, as a new owner of the lane reads them: the sequences of the lane's producer show which of them are copies.
After the barrier no request of an earlier owner can be appended. Contents are not compared, and nothing but the barrier
is written.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from engine.base.tasks import run_all
from engine.core.events.events import TargetGap
from engine.core.position.position import ForeignPosition, Position
from engine.core.position.resume import ResumePoint
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ownership.position_recovery import FencedLane, PositionRecovery
from engine.flow.ownership.starts import StartResolver
from engine.flow.ownership.stored_positions import LogOffsets, Unreadable
from engine.flow.ports.options import FlowOptions
from engine.flow.ports.ports import Cluster
from engine.flow.replication.copier import FlowCopier
from engine.flow.surveys.separation_survey import BY_MM2, NOT_COPIED
from policies.model import LaneName, PartitionSet
from policies.start import Earliest, Start

_AT_ONCE = 32
RETENTION = "the target's retention deleted the end of the copy, so where new records begin is not known"


class CopyEnd(msgspec.Struct, frozen=True, kw_only=True):
    """Where the copy of a lane ended: the next source offset, and the target offset behind the last copied record.

    `source_epoch`: the leader epoch of the source's records up to `epoch_next`, by the position; -1: not known.
    `source_topic_id`, `target_topic_id`: of the topic that was copied, and of its copy. `why`: why the end is not
    known; empty if it is. `between`: records of other writers that lie before the last copied one.
    """

    lane: LaneName
    source_next: int = -1
    target_next: int = -1
    source_epoch: int = -1
    epoch_next: int = -1
    source_topic_id: str = ""
    target_topic_id: str = ""
    between: int = 0
    why: str = ""


async def settle(options: FlowOptions, source: Cluster, target: Cluster, lanes: Sequence[LaneName]) -> list[CopyEnd]:
    """Write the barrier of each lane, and find where its copy ended; nothing may copy the flow meanwhile.

    Raises ConnectionLost, BrokerUnreachable, KafkaRefusal.
    """
    whole = PartitionSet(set_id=f"{options.flow}/settle", flow=options.flow, epoch=0, lanes=tuple(lanes))
    copier = FlowCopier(options, source, target, _earliest)
    drivers = [copier.new_driver(lane, whole) for lane in lanes]
    recovery = PositionRecovery(options, source, target, StartResolver(source, _earliest))
    found: dict[LaneName, CopyEnd] = {}
    stored = await recovery.stored(drivers) if drivers else {}
    ours = [driver for driver in drivers if isinstance(stored.get(driver.name.source), Position)]
    for driver in drivers:
        if driver not in ours:
            found[driver.name] = CopyEnd(lane=driver.name, why=_why_none(stored.get(driver.name.source)))
    if ours:
        found |= await _LaneBarriers(options, target, recovery).ends(ours)
    return [found[lane] for lane in lanes]


def _earliest(_topic: str) -> Start:
    return Earliest()


def _why_none(stored: object) -> str:
    if isinstance(stored, Unreadable):
        return f"its position cannot be read: {stored.reason}"
    return BY_MM2 if isinstance(stored, ForeignPosition) else NOT_COPIED


class _LaneBarriers:
    """The barriers and reads of some lanes that have a position."""

    def __init__(self, options: FlowOptions, target: Cluster, recovery: PositionRecovery) -> None:
        self._options, self._target, self._recovery = options, target, recovery
        self._at_once = asyncio.Semaphore(_AT_ONCE)

    async def ends(self, drivers: Sequence[LaneDriver]) -> dict[LaneName, CopyEnd]:
        """Return the end of each copy."""
        before = await self._recovery.before(drivers, {})
        fenced: dict[LaneName, FencedLane] = {}

        async def fence(driver: LaneDriver) -> None:
            async with self._at_once:
                name = self._options.transactional_id(*driver.name.source)
                producer = await self._target.acquire(name, driver.fenced_partitions)
            fenced[driver.name] = FencedLane(producer, before[driver.name.source], 0)

        await run_all(*(fence(driver) for driver in drivers))
        logs = await self._recovery.read_offsets(drivers, stored=None)
        found: dict[LaneName, CopyEnd] = {}

        async def find(driver: LaneDriver) -> None:
            async with self._at_once:
                found[driver.name] = await self._end(driver, fenced[driver.name], logs)

        await run_all(*(find(driver) for driver in drivers))
        return found

    async def _end(self, driver: LaneDriver, fenced: FencedLane, logs: LogOffsets) -> CopyEnd:
        stored = logs.stored.get(driver.name.source)
        blank = CopyEnd(lane=driver.name)
        if not isinstance(stored, Position):
            return msgspec.structs.replace(blank, why=_why_none(stored))
        if not fenced.producer.fenced:
            why = f"an earlier copier may still write to it, and cannot be fenced: {fenced.producer.unfenced_by}"
            return msgspec.structs.replace(blank, why=why)
        point = await self._recovery.find(driver, fenced, logs, same_source=False)
        if isinstance(point, TargetGap):
            return msgspec.structs.replace(blank, why=f"where its copy ends is not known: {point.cause}")
        if point.target_end >= 0:
            return msgspec.structs.replace(blank, why="the target has lost records that were copied")
        if point.source_next > stored.source_next and not point.copied:
            return msgspec.structs.replace(blank, why=RETENTION)
        return msgspec.structs.replace(
            blank,
            source_next=point.source_next,
            target_next=_end_of(stored, point),
            source_epoch=stored.source_leader_epoch,
            epoch_next=stored.source_next,
            source_topic_id=stored.source_topic_id,
            target_topic_id=stored.target_topic_id,
            between=_between(stored, point),
        )


def _between(stored: Position, point: ResumePoint) -> int:
    """Count what others appended before the last copied record: a request of the copier that was long on its way."""
    end = _end_of(stored, point)
    return sum(max(0, min(last + 1, end) - first) for first, last in point.foreign)


def _end_of(stored: Position, point: ResumePoint) -> int:
    """Return the target offset behind the last copied record."""
    if not point.copied:
        return stored.target_next
    last = point.copied[-1]
    return last.target + last.count
