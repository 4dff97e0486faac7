"""Looks whether commits were carried out, where no append shows it soon, and commits again where they were not.

A coordinator may leave out the marker of a commit that it has decided (`core/position/stored_tail.py`). The next append
behind it shows that by its offset, and the commit that follows it mends it. In a lane that has copied everything
readers of committed records would wait, and a death would undo what was committed: so the leaders are asked what they
still hold open of our producers (DescribeProducers, KIP-664), a moment after the last commit, and asked again until
they answer.
"""

from collections.abc import Callable, Sequence

from engine.base.clock import now_s
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.core.events.commit_events import CommitUnmarked
from engine.core.events.events import AnyEvent
from engine.core.streams.transaction import OWNED, TransactionStage
from engine.flow.lane.bisection import by_leaders
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ports.ports import Cluster, ProducerState
from policies.model import FlowName, TopicPartition

_LOOK_S = 1.0
"""A marker is mostly there within milliseconds."""
_AT_ONCE = 1000
"""Lanes in one look."""


class MarkerWatch:
    """The lanes of one copier whose last commit is not known to be carried out. `mend` has a lane commit again."""

    def __init__(
        self,
        flow: FlowName,
        target: Cluster,
        tell: Callable[[AnyEvent], None],
        mend: Callable[[LaneDriver], None],
    ) -> None:
        self._flow = flow
        self._target = target
        self._tell = tell
        self._mend = mend
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

    async def look(self, drivers: Sequence[LaneDriver]) -> None:
        """Ask about some lanes; one that no leader can be asked about is looked at again. Raises nothing."""
        asked = {driver: self._since.get(driver) for driver in drivers}
        states = await self._states(drivers)
        for driver, since_s in asked.items():
            if since_s is None or self._since.get(driver) != since_s:
                continue  # it has committed since
            parts = _parts(driver)
            if all(part in states for part in parts):
                self._seen(driver)  # or it commits again, which `_judge` has it begin at once
            else:
                self.committed(driver)  # as if it were now: asked again in a moment
            for part in parts:
                self._judge(driver, part, states.get(part, []))

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

    def _judge(self, driver: LaneDriver, partition: TopicPartition, states: Sequence[ProducerState]) -> None:
        ours = driver.producer
        if ours is None or driver.transaction is None or driver.transaction.stage is not TransactionStage.CLOSED:
            return
        for state in states:
            if (state.producer_id, state.epoch) == (ours.producer_id, ours.epoch) and state.open_since_offset >= 0:
                if partition == driver.partition:
                    event = CommitUnmarked(
                        flow=self._flow, lane=driver.name.source, target_offset=driver.lane.target_next
                    )
                    self._tell(event)
                self._mend(driver)


def _parts(driver: LaneDriver) -> tuple[TopicPartition, TopicPartition]:
    return driver.partition, driver.position_appender.partition
