"""Copies lanes in this process up to given offsets, by the ordinary copier, and drains it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from engine.base.clock import now_s, pause
from engine.base.errors import MirrorError
from engine.base.tasks import first_cause
from engine.core.events.events import SourceGap
from engine.core.position.position import Position
from engine.core.reports.progress import FlowProgress
from engine.flow.operations.store import EFFECT_S
from engine.flow.ownership.stored_positions import stored_positions
from engine.flow.ports.options import FlowOptions
from engine.flow.ports.ports import Cluster
from engine.flow.replication.copier import FlowCopier
from policies.model import LaneName, PartitionSet, TopicPartition

LOOK_S = 0.2
_STOPPED = ("failed", "refused")
_NAMED = 5


class LanesStopped(MirrorError):
    """Lanes of a failback cannot be copied: flow, why by lane, and what the source does not have any more."""

    exit_code = 1

    def __init__(self, flow: str, why: dict[str, str], gaps: tuple[SourceGap, ...] = ()) -> None:
        super().__init__(flow, why, gaps)
        self.flow, self.why, self.gaps = flow, why, gaps

    @property
    def lacks_records(self) -> bool:
        """Whether nothing but missing records has stopped the lanes."""
        return self.why.keys() == {str(gap.lane) for gap in self.gaps}

    def __str__(self) -> str:
        named = "; ".join(f"{lane}: {why}" for lane, why in list(self.why.items())[:_NAMED])
        more = f"; and {len(self.why) - _NAMED} more" if len(self.why) > _NAMED else ""
        return f"copying {self.flow} has stopped: {named}{more}"


async def copy_until(
    copier: FlowCopier,
    lanes: Sequence[LaneName],
    ends: Mapping[TopicPartition, int],
    epoch: int,
    *,
    assure: Callable[[], None],
) -> None:
    """Copy lanes until each has reached its end, by its source partition; then make positions durable.

    `assure` is asked all the time, and raises if this process may not go on: the copier's lease ends soon after that.
    Raises LanesStopped.
    """
    flow, watch = copier.options.flow, _Watch(ends)
    copier.assign(PartitionSet(set_id=f"{flow}/failback", flow=flow, epoch=epoch, lanes=tuple(lanes)))
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(copier.run())
            while not watch.is_done(copier.progress()):
                assure()
                copier.lease_until_s = now_s() + EFFECT_S
                await pause(LOOK_S)
            assure()
            copier.lease_until_s = now_s() + EFFECT_S + copier.options.drain_s
            await copier.drain()
    except BaseExceptionGroup as failures:
        raise first_cause(failures) from None


class _Watch:
    """Looks whether all lanes have reached their ends, by their source partitions."""

    def __init__(self, ends: Mapping[TopicPartition, int]) -> None:
        self._ends = ends
        self._gaps: dict[TopicPartition, SourceGap] = {}
        self._stopped: dict[str, str] = {}

    def is_done(self, now: FlowProgress) -> bool:
        """Whether all is copied. Raises LanesStopped, once a look finds no more stopped lanes than the one before."""
        lanes, before = now.lanes, self._stopped
        self._gaps |= {one.lane: one for one in now.events if isinstance(one, SourceGap) and one.goes_on_at < 0}
        self._stopped = {str(one.lane): one.reason or one.state for one in lanes if one.state in _STOPPED}
        if self._stopped and self._stopped.keys() == before.keys():
            raise LanesStopped(str(now.flow), self._stopped, tuple(self._gaps.values()))
        return len(lanes) == len(self._ends) and all(
            one.source_next >= self._ends[one.lane] and not one.in_flight for one in lanes
        )


async def positions_of(target: Cluster, options: FlowOptions) -> dict[TopicPartition, Position]:
    """Read the positions that raymirror wrote for a flow. Raises ConnectionLost, BrokerUnreachable, KafkaRefusal."""
    stored = await stored_positions(target, options.positions_topic, options.position_keys)
    return {lane: one for lane, one in stored.lanes.items() if isinstance(one, Position)}


async def next_epoch(target: Cluster, options: FlowOptions) -> int:
    """Return an assignment epoch above all that positions name. Raises as `positions_of` does."""
    return max((one.assignment_epoch for one in (await positions_of(target, options)).values()), default=0) + 1
