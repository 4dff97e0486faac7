"""Checks that the markers of commits were written, if no append shows it soon, and commits again if they were not.

A coordinator may fail to write the marker of a commit that it has decided (`core/position/stored_tail.py`). The next
append shows that by its offset, and the commit after it repairs it. But in a lane that has caught up there is no next
append: readers of committed records would wait, and the end of the copier would undo the commit. So, a second after the
last commit, this watch asks the leaders which transactions of the copier's producers are still open (DescribeProducers,
KIP-664), and asks again until they answer.
"""

from collections.abc import Sequence

from engine.base.clock import now_s
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.core.events.commit_events import CommitUnmarked
from engine.core.streams.transaction import OWNED, TransactionStage
from engine.flow.context.copier_context import CopierContext
from engine.flow.lane.bisection import by_leaders
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ports.ports import ProducerState
from policies.model import TopicPartition

_LOOK_S = 1.0
"""Wait after a commit; most markers are written within milliseconds."""
_AT_ONCE = 1000
"""Lanes in one check."""


class MarkerWatch:
    """The lanes of one copier whose last commit may lack its marker."""

    def __init__(self, context: CopierContext) -> None:
        self._context = context
        self._target = context.target
        self._since: dict[LaneDriver, float] = {}

    def committed(self, driver: LaneDriver) -> None:
        """Schedule a check of this lane: a commit was decided."""
        self._since.pop(driver, None)
        self._since[driver] = now_s()
        driver.marker_owed = True

    def due(self) -> list[LaneDriver]:
        """Return the lanes to check now, the oldest commits first."""
        before = now_s() - _LOOK_S
        found: list[LaneDriver] = []
        for driver, since_s in list(self._since.items()):
            if since_s > before or len(found) == _AT_ONCE:
                break
            transaction = driver.transaction
            if transaction is None or driver.lane.state not in OWNED:
                self._seen(driver)
            elif transaction.stage is TransactionStage.CLOSED:
                found.append(driver)
        return found

    async def check(self, drivers: Sequence[LaneDriver]) -> list[LaneDriver]:
        """Check some lanes; return the lanes that must commit again. Raises nothing.

        A lane whose leader does not answer is checked again later.
        """
        found: list[LaneDriver] = []
        asked = {driver: self._since.get(driver) for driver in drivers}
        states = await self._states(drivers)
        for driver, since_s in asked.items():
            if since_s is None or self._since.get(driver) != since_s:
                continue  # it has committed since
            parts = _parts(driver)
            if all(part in states for part in parts):
                self._seen(driver)  # or it commits again, at once
            else:
                self.committed(driver)  # as if it had committed now: checked again in a second
            if any(self._is_open(driver, part, states.get(part, [])) for part in parts):
                found.append(driver)
        return found

    def _seen(self, driver: LaneDriver) -> None:
        del self._since[driver]
        driver.marker_owed = False

    async def _states(self, drivers: Sequence[LaneDriver]) -> dict[TopicPartition, list[ProducerState]]:
        wanted = list(dict.fromkeys(part for driver in drivers for part in _parts(driver)))
        try:
            led = await self._target.leaders(wanted)
        except (ConnectionLost, BrokerUnreachable, KafkaRefusal):
            return {}
        return await by_leaders(self._ask, led)

    async def _ask(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, list[ProducerState]]:
        try:
            return await self._target.producers(partitions)
        except KafkaRefusal:
            if len(partitions) > 1:
                raise
            return {partitions[0]: []}  # not authorized: the next append shows it

    def _is_open(self, driver: LaneDriver, partition: TopicPartition, states: Sequence[ProducerState]) -> bool:
        """Whether a leader still holds the lane's last transaction open; report it if that holds records back."""
        ours = driver.producer
        if ours is None or driver.transaction is None or driver.transaction.stage is not TransactionStage.CLOSED:
            return False
        for state in states:
            if (state.producer_id, state.epoch) == (ours.producer_id, ours.epoch) and state.open_since_offset >= 0:
                if partition == driver.partition:
                    self._context.events.report(
                        CommitUnmarked(
                            flow=self._context.flow, lane=driver.name.source, target_offset=driver.lane.target_next
                        )
                    )
                return True
        return False


def _parts(driver: LaneDriver) -> tuple[TopicPartition, TopicPartition]:
    return driver.partition, driver.position_appender.partition
