"""Begins and commits the transactions of a copier's lanes: one per lane, with the lane's own transactional id.

`core/streams/transaction.py` decides when. This module sends the requests to coordinators, while the lease lasts, and
repeats them until they are answered. A lane whose coordinator does not answer waits alone. If an answer is lost, the
request is sent again: a repeated commit has no effect, and the broker refuses an owner that was replaced.
"""

from collections.abc import Awaitable, Callable, Sequence

from engine.base.clock import backoff_s, now_s, pause
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.core.streams.transaction import OWNED, CommittedPositions, TransactionStage, TransactionStep
from engine.flow.context.copier_context import CopierContext
from engine.flow.io.router import BrokerRouter
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ownership.failure_handler import FailureHandler
from engine.flow.ports.ports import Producer
from engine.flow.replication.marker_watch import MarkerWatch
from policies.model import TopicPartition

_TICK_S = 0.02
_DENIED_S = 5.0
"""The longest pause, in seconds, before a request is repeated that was refused for a missing right."""
_ENDED = frozenset({47, 48, 49, 90})
"""Codes that say: this producer does not own the transaction (any more). The lane's owner starts at another epoch."""


class Commits:
    """Moves the transactions of one copier's lanes forward."""

    def __init__(self, context: CopierContext, router: BrokerRouter, failures: FailureHandler) -> None:
        self._target = context.target
        self._lease_guard = context.lease_guard
        self._spawn = context.tasks.spawn
        self._router = router
        self._failures = failures
        self._open: dict[LaneDriver, None] = {}
        self._markers = MarkerWatch(context)
        self._looking = False

    async def run(self) -> None:
        """Check open transactions until cancelled: they also end by time."""
        while True:
            await pause(_TICK_S)
            for driver in list(self._open):
                transaction = driver.transaction
                if (
                    transaction is None
                    or transaction.stage is TransactionStage.CLOSED
                    or driver.lane.state not in OWNED
                ):
                    del self._open[driver]
                self.advance(driver)
            self._look_at_markers()

    def _look_at_markers(self) -> None:
        drivers = [] if self._looking else self._markers.due()
        if drivers:
            self._looking = True
            self._spawn(self._marked(drivers))

    async def _marked(self, drivers: Sequence[LaneDriver]) -> None:
        try:
            for driver in await self._markers.check(drivers):
                if driver.transaction is not None:
                    driver.transaction.refresh()
                    self.advance(driver)
        finally:
            self._looking = False

    def advance(self, driver: LaneDriver) -> None:
        """Move the transaction of a lane as far forward as possible, after a change in the lane."""
        transaction, producer = driver.transaction, driver.producer
        if transaction is None or producer is None:
            return
        caught_up = driver.lane.source_next >= driver.source_end
        match transaction.step(now_s(), caught_up=caught_up):
            case TransactionStep.BEGIN:
                self._open[driver] = None
                self._spawn(self._begin(driver, transaction, producer))
            case TransactionStep.WRITE:
                self._router.schedule_send([driver])
            case TransactionStep.COMMIT:
                self._spawn(self._commit(driver, transaction, producer))

    async def _begin(self, driver: LaneDriver, transaction: CommittedPositions, producer: Producer) -> None:
        partitions = _partitions(driver, transaction)
        name = driver.transactional_id
        if await self._ask(driver, producer, lambda: self._target.add_to_transaction(name, producer, partitions)):
            transaction.begun(now_s())
            self._router.schedule_send([driver])
            self.advance(driver)

    async def _commit(self, driver: LaneDriver, transaction: CommittedPositions, producer: Producer) -> None:
        name = driver.transactional_id
        if await self._ask(driver, producer, lambda: self._target.commit(name, producer)):
            transaction.committed(now_s())
            self._markers.committed(driver)
            driver.on_written()

    async def _ask(self, driver: LaneDriver, producer: Producer, ask: Callable[[], Awaitable[None]]) -> bool:
        """Send a request until it is answered; return False if this producer does not own the lane any more."""

        async def asked() -> None:
            await ask()

        attempt = 0
        while _owns(driver, producer):
            try:
                await self._lease_guard.while_open(asked)
            except (ConnectionLost, BrokerUnreachable) as error:
                attempt += 1
                driver.health.append_failed(str(error))
                await pause(backoff_s(attempt))
            except KafkaRefusal as refusal:
                attempt += 1
                if not (_owns(driver, producer) and self._may_pass(driver, refusal)):
                    return False
                await pause(backoff_s(attempt, most_s=_DENIED_S))
            else:
                self._failures.denials.allowed(driver)
                return _owns(driver, producer)
        return False

    def _may_pass(self, driver: LaneDriver, refusal: KafkaRefusal) -> bool:
        if refusal.code in _ENDED:
            self._failures.reacquire(driver, str(refusal), fenced=True)
            return False
        return self._failures.denials.refused(driver, refusal)


def _owns(driver: LaneDriver, producer: Producer) -> bool:
    return driver.producer is producer and driver.lane.state in OWNED


def _partitions(driver: LaneDriver, transaction: CommittedPositions) -> list[TopicPartition]:
    """Return the partitions to add, without the map's: readers ignore blocks that no committed position counts."""
    if transaction.whole:
        return driver.fenced_partitions
    records = [driver.partition] if transaction.with_records else []
    return [*records, driver.position_appender.partition]
