"""Connects the parts of one copier: what a lane reports goes to the parts that act on it.

    inbox    -> taken, awake, idle, fault, corrupt   -> router, failure handler, scheduler
    outbox   -> appended, written, progressed        -> router, commits
    lane     -> perform                              -> failure handler
    leaders  -> changed_topic, cut_off               -> failure handler

The parts need each other both ways, so this object is created first, and gets the others by `connect`.
"""

from collections.abc import Sequence

from engine.base.clock import now_s
from engine.base.errors import WireError
from engine.core.lane.actions import Action
from engine.flow.context.copier_context import CopierContext
from engine.flow.io.router import BrokerRouter
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ownership.failure_handler import FailureHandler
from engine.flow.ports.ports import Slice
from engine.flow.replication.committing import Commits


class LaneTraffic:
    """Implements `LaneEvents` for the lanes of one copier."""

    def __init__(self, context: CopierContext) -> None:
        self._context = context
        self._router: BrokerRouter
        self._failures: FailureHandler
        self._commits: Commits | None = None

    def connect(self, router: BrokerRouter, failures: FailureHandler, commits: Commits | None) -> None:
        """Set the parts that act. `commits`: None if lanes copy without transactions."""
        self._router, self._failures, self._commits = router, failures, commits

    # --- fetches ---------------------------------------------------------------------------------------------

    def taken(self, drivers: Sequence[LaneDriver]) -> None:
        """Send the new batches of some lanes."""
        if drivers:
            self._context.loop_probe.sample()
        for driver in drivers:
            if driver.health.denied:
                self._failures.denials.fetched(driver)
        self._router.send(drivers)

    def awake(self, driver: LaneDriver) -> None:
        """Acquire a lane that only watched its source, and now has something to copy."""
        self._failures.denials.fetched(driver)
        driver.attempts.wake(now_s())
        driver.lane.wake()
        self._context.ownerless.set()

    def idle(self, driver: LaneDriver, found: Slice) -> None:
        """Check whether an open transaction holds the lane."""
        self._failures.idle(driver, found)

    def fault(self, driver: LaneDriver, found: Slice) -> None:
        """Handle a fetch that failed."""
        self._failures.source_fault(driver, found)

    def corrupt(self, driver: LaneDriver, error: WireError) -> None:
        """Stop a lane with a corrupt batch."""
        self._failures.corrupt(driver, error)

    # --- appends ---------------------------------------------------------------------------------------------

    def perform(self, driver: LaneDriver, action: Action) -> None:
        """Start an action that the lane asks for."""
        self._failures.perform(driver, action)

    def appended(self, driver: LaneDriver) -> None:
        """Fetch more for the lane, and end its health state "refused"."""
        self._router.wake(driver)
        if driver.blocks.due or driver.lane.paused:  # a paused lane writes its position after its last record
            self._router.schedule_send([driver])
        if driver.health.refused or driver.health.denied:
            self._failures.released(driver)

    def written(self, driver: LaneDriver) -> None:
        """Send or fetch what waited for a position or block."""
        self._router.wake(driver)
        self._router.schedule_send([driver])

    def progressed(self, driver: LaneDriver) -> None:
        """Continue the lane's transaction."""
        if self._commits is not None:
            self._commits.advance(driver)

    # --- leaders ---------------------------------------------------------------------------------------------

    def changed_topic(self, driver: LaneDriver, side: str, topic: str, expected: str, found: str) -> None:
        """Handle a topic that was deleted and created again."""
        self._failures.changed_topic(driver, side, topic, expected, found)

    def cut_off(self, driver: LaneDriver, why: str) -> None:
        """Acquire a lane again whose target lost records."""
        self._failures.cut_off(driver, why)
