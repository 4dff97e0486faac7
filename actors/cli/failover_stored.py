"""How a failover judges the partitions of a flow: by the positions on its target, where no copier tells of them."""

import msgspec

from engine.core.drain import Ends, PartitionDrain, absent_lanes, judged
from engine.core.progress import LaneProgress
from engine.failover import Failover
from engine.flow.last_known import LastKnown
from engine.settings import FlowConfig
from policies.model import TopicPartition


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """Every partition that somebody knows of, and where the source ends.

    `by_positions`: those on the target say how far each is copied, no copier does. `unread`: partitions of the
    positions topic that could not be read, and why.
    """

    lanes: list[LaneProgress]
    ends: Ends
    partitions: tuple[PartitionDrain, ...]
    by_positions: bool = False
    unread: dict[str, str] = {}

    @property
    def is_whole(self) -> bool:
        """Whether every partition of the flow is here: only a source that answers lists them all."""
        return not self.ends.gone


async def judged_by_positions(asked: Failover, flow: FlowConfig, found: LastKnown, idle: str) -> Judged:
    """Judge each partition by its last position; `idle`: why nobody copies those that have one."""
    lanes = [one.progress(idle) for one in found.lanes]
    ends = await asked.ends([lane.lane for lane in lanes])
    lanes += absent_lanes(lanes, ends)
    partitions = judged(lanes, {}, Ends(), ends, flow.naming.is_heartbeats_topic)
    dated = _dated(partitions, found)
    return Judged(lanes=lanes, ends=ends, partitions=dated, by_positions=True, unread=found.unread)


def _dated(partitions: tuple[PartitionDrain, ...], found: LastKnown) -> tuple[PartitionDrain, ...]:
    """Say of each partition when the position or offset sync was written that it is judged by."""
    stamps = {one.lane: one.at_ms for one in found.lanes}
    return tuple(
        msgspec.structs.replace(row, as_of_ms=stamps.get(TopicPartition(row.topic, row.partition), -1))
        for row in partitions
    )
