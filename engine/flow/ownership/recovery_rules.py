"""Decides whether a lane stops or continues when its source or topics are not those of its position.

The decision is made only after the barrier, when no previous owner can change the logs any more. A change that shows
while a lane copies makes the lane acquire again, and is judged there like a change that shows at a start.
"""

import msgspec

from engine.base.errors import ConnectionLost
from engine.core.events.events import AnyEvent, IdentityChanged, SourceGap, TargetGap, TopicRenewed
from engine.core.position.position import Position
from engine.core.position.recovering import behind_gap, is_other_cluster, renewed_point, renewed_side
from engine.core.position.resume import ResumePoint
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ownership.position_recovery import FencedLane, PositionRecovery
from engine.flow.ownership.stored_positions import LogOffsets
from engine.flow.ports.options import FlowOptions
from engine.flow.ports.ports import EARLIEST, Cluster
from policies.sync.topic_faults import GoOn, Renewed, go_on


class Recovered(msgspec.Struct, frozen=True):
    """The offset where a lane continues nevertheless, and the event that names what is missing on the target."""

    found: ResumePoint
    event: AnyEvent


class RecoveryRules:
    """Judges changes that a lane's position does not expect, by the rules of its topic."""

    def __init__(self, options: FlowOptions, source: Cluster, target: Cluster, recovery: PositionRecovery) -> None:
        self._options = options
        self._source = source
        self._target = target
        self._recovery = recovery

    # --- re-created topics ------------------------------------------------------------------------------------

    async def renewed(
        self, driver: LaneDriver, stored: Position, fenced: FencedLane, logs: LogOffsets
    ) -> Recovered | AnyEvent | None:
        """Decide about a lane whose topics or clusters are not those of its position; None: they are the same.

        Raises ConnectionLost if that is not certain yet, or if the lane waits for a new copy.
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
            raise ConnectionLost(f"waits until {driver.name.target.topic} is deleted and created again")
        return await self._go_on(driver, stored, fenced, logs, which, place, changed)

    async def _be_certain(self, driver: LaneDriver) -> None:
        """Raise ConnectionLost unless the brokers agree on the topics: a stale broker names the previous topic."""
        for cluster, partition, leader in (
            (self._source, driver.name.source, driver.leaders.source),
            (self._target, driver.name.target, driver.leaders.target),
        ):
            if leader.topic_id and await cluster.settled_id(partition.topic) != leader.topic_id:
                raise ConnectionLost(f"topic {partition.topic} has another id again: its leaders are looked up again")

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
        if which is Renewed.SOURCE:  # the copy is still the same: its tail shows how far the previous topic was copied
            found = await self._recovery.find(driver, fenced, logs, same_source=False)
            if isinstance(found, TargetGap):
                return found
            if found.target_end >= 0:  # the target lost records too, so neither side has them: no rule covers that
                return changed
            copied, foreign = found.source_next, found.foreign
        else:
            self._recovery.check_behind(driver, fenced, logs)
            foreign = await self._recovery.strangers(target, logs)
        self._source.forget_topic(source.topic)  # the next look-up finds the topics that exist now
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
        """Decide about a lane whose source no longer has the next records to copy; None: the source has them.

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
        if gap is None or not self._options.continues_behind(driver.name.source, gap.last):
            return gap
        moved = behind_gap(found, gap.first, gap.last)
        return Recovered(moved, msgspec.structs.replace(gap, goes_on_at=moved.source_next))
