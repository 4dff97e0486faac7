"""Decides which lanes need no barrier: chosen before the epoch is requested, confirmed by what is read after it.

The rules and their reasons are in `core/position/vacancy.py`. This module asks brokers for what the rules need: the
position, an epoch without a barrier, and the agreement of all target brokers on the leaders. A barrier's own markers
prove that no stale leader answered. Without a barrier, every broker must answer, and the newest leader epoch counts.
"""

from collections.abc import Sequence

from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.core.position.position import ForeignPosition, Position
from engine.core.position.resume import ResumePoint
from engine.core.position.vacancy import is_vacant, stands_as_left
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ownership.position_recovery import FencedLane, PositionRecovery, PreFenceState
from engine.flow.ownership.stored_positions import LogOffsets, Stored, Unreadable
from engine.flow.ports.options import FlowOptions
from engine.flow.ports.ports import Cluster, Producer
from policies.model import TopicPartition

_NOT_AS_LEFT = "acquired without a barrier, but its logs do not fit its position: it is acquired again with a barrier"


class Vacancies:
    """Decides for one flow which lanes are acquired without a barrier."""

    def __init__(self, options: FlowOptions, target: Cluster, recovery: PositionRecovery) -> None:
        self._options = options
        self._target = target
        self._recovery = recovery

    async def candidates(self, drivers: Sequence[LaneDriver]) -> dict[TopicPartition, Position | None]:
        """Return the lanes that may be vacant, with their positions; none if some broker does not answer.

        Lanes that this process has owned are left out: it lost them, and did not leave them cleanly.
        """
        if self._options.commit_s:
            return {}  # each commit leaves a marker anyway
        try:
            return await self._found([driver for driver in drivers if driver.producer is None])
        except (ConnectionLost, BrokerUnreachable, KafkaRefusal):
            return {}  # a barrier asks fewer brokers: an unreachable one then delays only the lanes that it leads

    async def _found(self, fresh: Sequence[LaneDriver]) -> dict[TopicPartition, Position | None]:
        unread = [driver for driver in fresh if driver.attempts.stored is None]
        stored = await self._recovery.stored(unread) if unread else {}
        found: dict[TopicPartition, Position | None] = {}
        for driver in fresh:
            lane = driver.name.source
            read = driver.attempts.stored
            position: Stored = stored.get(lane) if read is None else read.left
            if (position is None and read is None) or (isinstance(position, Position) and position.left):
                found[lane] = position
        agreed = await self._recovery.agreed([driver for driver in fresh if driver.name.source in found])
        return found if agreed else {}

    async def take_producer(self, driver: LaneDriver, before: PreFenceState) -> tuple[Producer, bool]:
        """Take a lane's producer; return it, and whether that was without a barrier."""
        transactional_id = self._options.transactional_id(*driver.name.source)
        if before.may_be_vacant:
            producer = await self._target.enter(transactional_id)
            if producer.fenced and is_vacant(before.stored, producer.producer_id, producer.epoch, before.end):
                return producer, True
        return await self._target.acquire(transactional_id, driver.fenced_partitions), False

    def confirm(self, driver: LaneDriver, fenced: FencedLane, logs: LogOffsets, found: object) -> None:
        """Raise ConnectionLost if a lane without a barrier is not as its last owner left it."""
        if not fenced.vacant:
            return
        stored, end = logs.stored.get(driver.name.source), logs.target_ends[driver.name.target]
        producer = fenced.producer
        if (
            isinstance(stored, ForeignPosition | Unreadable)
            or not is_vacant(stored, producer.producer_id, producer.epoch, end)
            or not isinstance(found, ResumePoint)
            or not stands_as_left(stored, found, end)
        ):
            raise ConnectionLost(f"{driver.name.source}: {_NOT_AS_LEFT}")
