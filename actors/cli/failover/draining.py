"""Drains a flow before `raymirror failover` stops it: waits for each partition to be copied, in bounded time."""

from collections.abc import Collection, Iterable
from typing import Protocol

from actors.cli.common.quiesce import POLL_S
from actors.ray.mirror import Mirror
from engine.base.clock import now_s, pause
from engine.config.settings import FlowConfig
from engine.core.reports.drain import Ends, is_waited_for
from engine.core.reports.progress import LaneProgress
from policies.model import TopicPartition

LEADERS_S = 12.0
"""Seconds within which a partition with another replica has a new leader: Kafka fences a dead broker after 9 s."""
AGAIN_S = 2.0
"""Seconds between two requests for ends that are not known yet."""
_MOST_RESERVED_S = 20.0


class DrainSource(Protocol):
    """Reads the end offsets of the source (`engine.services.dr.failover.Failover`)."""

    async def ends(self, lanes: Collection[TopicPartition]) -> Ends:
        """Ask for the ends of all partitions that the flow copies, and of these lanes."""

    async def ends_of(self, lanes: Collection[TopicPartition]) -> Ends:
        """Ask for the ends of these lanes."""


class DrainBudget:
    """The time of a failover in seconds: the drain may take most of it, the steps after the drain have the rest."""

    def __init__(self, seconds: float) -> None:
        self._ends_at_s = now_s() + seconds
        self.drain_until_s = self._ends_at_s - min(_MOST_RESERVED_S, seconds / 2)

    @property
    def left_s(self) -> float:
        """Seconds that are left of the whole time."""
        return max(0.0, self._ends_at_s - now_s())


def lanes_of(mirror: Mirror, flow: FlowConfig) -> list[LaneProgress]:
    """Ask for the lanes of one flow. Raises MirrorLost."""
    return [lane for lane in mirror.status(lanes=True).lanes if lane.set_id.startswith(f"{flow.name}/")]


async def drain(mirror: Mirror, flow: FlowConfig, asked: DrainSource, give_up_at_s: float) -> Ends:
    """Wait until everything that can be copied is copied, or time is up; return the ends that it waited for.

    Heartbeats do not count: the mirror itself writes them all the time. An end that is not known at first is requested
    again while other partitions are copied, and for as long as the election of a leader may take, not longer. Raises
    MirrorLost.
    """
    ends = (await asked.ends(names(lanes_of(mirror, flow)))).without(flow.naming.is_heartbeats_topic)
    leaders_until_s = min(give_up_at_s, now_s() + LEADERS_S)
    again_at_s = now_s() + AGAIN_S
    while not ends.gone and now_s() < give_up_at_s:
        waits_for_leaders = bool(ends.unknown) and now_s() < leaders_until_s
        if not waits_for_leaders and not any(is_waited_for(lane, ends) for lane in lanes_of(mirror, flow)):
            break
        if ends.unknown and now_s() >= again_at_s:
            ends = ends.plus(await asked.ends_of(ends.unknown.keys()))
            again_at_s = now_s() + AGAIN_S
        await pause(POLL_S)
    return ends


def names(lanes: Iterable[LaneProgress]) -> list[TopicPartition]:
    return [lane.lane for lane in lanes]
