"""Detects a source that was restored from an earlier state: all brokers report a lower leader epoch than was copied.

Leader epochs of one topic id never fall (KIP-101), so the source no longer has the records copied at a higher epoch.
One broker with old metadata reports the same, so raymirror believes it only if all brokers agree.
"""

from engine.base.clock import pause
from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.core.events.events import LaneRefused
from engine.core.lane.states import State
from engine.flow.context.copier_context import CopierContext
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ports.ports import Cluster
from policies.model import FlowName

_FAULTS = 5
"""raymirror asks all brokers at every fifth fault in a row of a lane: after about 2 s, then every 5 s."""
_GATHER_S = 0.2
_STANDING = (State.COPYING, State.WATCHING)


async def refusal(
    flow: FlowName, source: Cluster, driver: LaneDriver, *, topic_id: str, copied_epoch: int, source_next: int
) -> LaneRefused | None:
    """Return the event if the source is led at a lower epoch than was copied. All its brokers were asked just now.

    Raises ConnectionLost, BrokerUnreachable.
    """
    lane = driver.name.source
    found = (await source.leaders([lane])).get(lane)
    if found is None or found.topic_id != topic_id or not 0 <= found.epoch < copied_epoch:
        return None
    what = (
        f"every source broker reports leader epoch {found.epoch} for this partition, but records of leader epoch"
        f" {copied_epoch} were copied: the source may have been restored from an earlier state, and may have other"
        f" records before offset {source_next}; to copy it nevertheless, set raymirror.topic.recreated = append or"
        f" re-create, and delete topic {driver.name.target.topic} on {flow.target}"
    )
    return LaneRefused(flow=flow, lane=lane, what=what)


class EarlierSource:
    """Finds running lanes whose source was restored, and stops them."""

    def __init__(self, context: CopierContext) -> None:
        self._context = context
        self._source = context.source
        self._doubted: dict[LaneDriver, None] = {}

    def faulted(self, driver: LaneDriver) -> None:
        """Note that a lane has no leader to fetch from; lanes without one at the same time are checked together."""
        if driver.leaders.faults == 0 or driver.leaders.faults % _FAULTS or driver.lane.source_leader_epoch < 0:
            return
        if not self._doubted:
            self._context.tasks.spawn(self._look())
        self._doubted[driver] = None

    async def _look(self) -> None:
        await pause(_GATHER_S)
        drivers, self._doubted = list(self._doubted), {}
        try:
            if await self._source.survey([driver.name.source for driver in drivers]):
                for driver in drivers:
                    await self._judge(driver)
        except (ConnectionLost, BrokerUnreachable):
            return  # the next faults ask again

    async def _judge(self, driver: LaneDriver) -> None:
        lane, topic_id = driver.lane, driver.ownership.source_topic_id
        copied_epoch, source_next = lane.source_leader_epoch, lane.source_next
        found = await refusal(
            self._context.flow,
            self._source,
            driver,
            topic_id=topic_id,
            copied_epoch=copied_epoch,
            source_next=source_next,
        )
        if found is not None and lane.state in _STANDING and driver.ownership.source_topic_id == topic_id:
            self._context.fail(driver, found)
