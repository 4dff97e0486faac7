"""Lanes whose source or topics are not what their position was written for: stopped, or gone on with where asked.

Decided behind the barrier only, where nothing of a former owner can change the ground any more. What is found while a
lane copies makes it acquire anew, and is judged there like what is found at a start.
"""

import msgspec

from engine.base.errors import ConnectionLost
from engine.core.events.events import AnyEvent, IdentityChanged, SourceGap, TargetGap, TopicRenewed
from engine.core.position.position import Position
from engine.core.position.recovering import behind_gap, is_other_cluster, renewed_point, renewed_side
from engine.core.position.resume import ResumePoint
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ownership.position_recovery import FencedLane, LogOffsets, PositionRecovery
from engine.flow.ports.options import FlowOptions
from engine.flow.ports.ports import EARLIEST, Cluster
from policies.sync.topic_faults import GoOn, OnGap, Renewed, go_on


class Recovered(msgspec.Struct, frozen=True):
    """Where a lane goes on all the same, and the event that says what is not on the target."""

    found: ResumePoint
    event: AnyEvent


class RecoveryRules:
    """Judges what a lane meets that its position did not expect, by the rules of its topic."""

    def __init__(self, options: FlowOptions, source: Cluster, target: Cluster, recovery: PositionRecovery) -> None:
        self._options = options
        self._source = source
        self._target = target
        self._recovery = recovery

    # --- topics that were made anew --------------------------------------------------------------------------

    async def renewed(
        self, driver: LaneDriver, stored: Position, fenced: FencedLane, logs: LogOffsets
    ) -> Recovered | AnyEvent | None:
        """Say what becomes of a lane whose topics or clusters are others than its position names; None: none is.

        Raises ConnectionLost where that is not certain yet, or waited for.
        """
        changed = self._recovery.changed_identity(driver, stored, logs)
        identity = logs.identity_of(driver)
        which = renewed_side(stored, identity)
        if changed is None or which is None or is_other_cluster(stored, identity):
            return changed
        choice = self._options.faults.on_renewal(driver.name.source.topic)
        place = go_on(choice, which)
        if place is GoOn.NOWHERE:
            return changed
        await self._be_certain(driver)
        if place is GoOn.BEHIND_TARGET:
            raise ConnectionLost(f"waits until {driver.name.target.topic} was deleted and made anew")
        return await self._go_on(driver, stored, fenced, logs, which, place, changed)

    async def _be_certain(self, driver: LaneDriver) -> None:
        """A broker of the past names the topic that was there before: all that answer must name the one we found."""
        for cluster, partition, leader in (
            (self._source, driver.name.source, driver.leaders.source),
            (self._target, driver.name.target, driver.leaders.target),
        ):
            if leader.topic_id and await cluster.settled_id(partition.topic) != leader.topic_id:
                raise ConnectionLost(f"topic {partition.topic} is another one again: its leaders are looked up anew")

    async def _go_on(
        self,
        driver: LaneDriver,
        stored: Position,
        fenced: FencedLane,
        logs: LogOffsets,
        which: Renewed,
        place: GoOn,
        changed: IdentityChanged,
    ) -> Recovered | AnyEvent:
        source, target = driver.name
        copied, foreign = stored.source_next, tuple[tuple[int, int], ...]()
        if which is Renewed.SOURCE:  # the copy is the one we know: its tail says how far the former topic came
            found = await self._recovery.find(driver, fenced, logs, same_source=False)
            if isinstance(found, TargetGap):
                return found
            if found.target_end >= 0:  # what the target lost besides is on neither side: nobody asked for that
                return changed
            copied, foreign = found.source_next, found.foreign
        else:
            self._recovery.check_behind(driver, fenced, logs)
            foreign = await self._recovery.strangers(target, logs)
        self._source.forget_topic(source.topic)  # the next look at the leaders names the topics that are there now
        self._target.forget_topic(target.topic)
        await self._source.leaders([source])
        await self._target.leaders([target])
        first = (await self._source.offsets([source], EARLIEST))[source]
        whole = place is GoOn.FIRST
        found = renewed_point(first if whole else stored.source_next, logs.target_ends[target], foreign, whole=whole)
        event = TopicRenewed(
            flow=self._options.flow,
            lane=source,
            source_renewed=which is not Renewed.TARGET,
            target_renewed=which is not Renewed.SOURCE,
            choice=self._options.faults.on_renewal(source.topic).value,
            copied=copied,
            source_offset=found.source_next,
            target_offset=found.target_next,
        )
        return Recovered(found, event)

    # --- gaps ------------------------------------------------------------------------------------------------

    async def source_gap(
        self, driver: LaneDriver, found: ResumePoint, logs: LogOffsets
    ) -> Recovered | SourceGap | None:
        """Say what becomes of a lane whose source no longer has what would be copied next; None: it has.

        Raises ConnectionLost, BrokerUnreachable.
        """
        divergence = driver.attempts.divergence
        if divergence is not None and divergence.offset < found.source_next:
            gap: SourceGap | None = SourceGap(
                flow=self._options.flow,
                lane=driver.name.source,
                first=divergence.offset,
                last=found.source_next - 1,
                cause=divergence.cause,
            )
        else:
            gap = await self._recovery.source_gap(driver, found.source_next, logs)
        if gap is None or self._options.faults.on_gap(driver.name.source.topic) is OnGap.FAIL:
            return gap
        moved = behind_gap(found, gap.first, gap.last)
        return Recovered(moved, msgspec.structs.replace(gap, goes_on_at=moved.source_next))
