"""Looks whether commits were carried out, where no append shows it soon, and commits again where they were not.

A coordinator may leave out the marker of a commit that it has decided (`core/position/stored_tail.py`). The next append
behind it shows that by its offset, and the commit that follows it mends it. In a lane that has copied everything
readers of committed records would wait, and a death would undo what was committed: so the leaders are asked what they
still hold open of our producers (DescribeProducers, KIP-664), a moment after the last commit, and asked again until
they answer.
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
"""A marker is mostly there within milliseconds."""
_AT_ONCE = 1000
"""Lanes in one look."""


class MarkerWatch:
    """The lanes of one copier whose last commit is not known to be carried out."""

    def __init__(self, context: CopierContext) -> None:
        self._context = context
        self._target = context.target
        self._since: dict[LaneDriver, float] = {}

    def committed(self, driver: LaneDriver) -> None:
        """A commit of this lane was decided: look at it in a moment."""
        self._since.pop(driver, None)
        self._since[driver] = now_s()
        driver.marker_owed = True

    def due(self) -> list[LaneDriver]:
        """Return the lanes to be looked at now, the oldest commits first."""
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
        """Ask about some lanes; return those that must commit again. Raises nothing.

        A lane that no leader can be asked about is looked at again.
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
                self.committed(driver)  # as if it were now: asked again in a moment
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
            return {partitions[0]: []}  # we may not look: the next append tells, whenever it comes

    def _is_open(self, driver: LaneDriver, partition: TopicPartition, states: Sequence[ProducerState]) -> bool:
        """Whether a leader still holds the lane's last transaction open; reported where it holds records back."""
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
