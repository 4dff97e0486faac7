"""Judges the partitions of a flow by the positions on its target, for a failover without reports of copiers."""

import msgspec

from engine.config.settings import FlowConfig
from engine.core.reports.drain import Ends, PartitionDrain, absent_lanes, judged
from engine.core.reports.progress import LaneProgress
from engine.flow.topic_logs.last_known import LastKnown
from engine.services.dr.failover import Failover
from policies.model import TopicPartition


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """All known partitions of a flow, and where the source ends.

    `by_positions`: the positions on the target say how far each partition is copied; no copier does. `unread`:
    partitions of the positions topic that could not be read, and why.
    """

    lanes: list[LaneProgress]
    ends: Ends
    partitions: tuple[PartitionDrain, ...]
    by_positions: bool = False
    unread: dict[str, str] = {}

    @property
    def copies(self) -> set[str]:
        """The target topics that the flow has copied something to."""
        return {lane.target.topic for lane in self.lanes if lane.source_next >= 0}

    @property
    def is_whole(self) -> bool:
        """Whether `lanes` has every partition of the flow: only a source that answers lists them all."""
        return not self.ends.gone


async def judged_by_positions(asked: Failover, flow: FlowConfig, found: LastKnown, idle: str) -> Judged:
    """Judge each partition by its last position; `idle`: why no copier copies the partitions that have one."""
    lanes = [one.progress(idle) for one in found.lanes]
    ends = await asked.ends([lane.lane for lane in lanes])
    lanes += absent_lanes(lanes, ends)
    partitions = judged(lanes, {}, Ends(), ends, flow.naming.is_heartbeats_topic)
    dated = _dated(partitions, found)
    return Judged(lanes=lanes, ends=ends, partitions=dated, by_positions=True, unread=found.unread)


def _dated(partitions: tuple[PartitionDrain, ...], found: LastKnown) -> tuple[PartitionDrain, ...]:
    """Add to each partition when the position or offset sync that judges it was written."""
    stamps = {one.lane: one.at_ms for one in found.lanes}
    return tuple(
        msgspec.structs.replace(row, as_of_ms=stamps.get(TopicPartition(row.topic, row.partition), -1))
        for row in partitions
    )
