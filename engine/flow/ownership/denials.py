"""Tracks what ACLs deny a lane: raymirror reports each denial once, tries again, and reports the end of the denial.

A right may be removed and granted again at any time, so no lane stops because of a missing right.
"""

from engine.base.errors import KafkaRefusal
from engine.core.events.events import AccessDenied, LaneRefused, LaneReleased, RecordRefused
from engine.core.lane.actions import WriteDenied
from engine.core.lane.outcome import UNAUTHORIZED
from engine.flow.context.copier_context import CopierContext
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ports.ports import FetchFault
from policies.grants.rights import SOMEBODY
from policies.sync.acl_sync import Operation

_FETCH, _APPEND, _OWN, _FENCE = "fetch", "append", "own", "fence"


class Denials:
    """Tracks the denials of each lane; stops a lane whose refusal has another cause than a missing right."""

    def __init__(self, context: CopierContext) -> None:
        self._context = context
        self._flow = context.flow

    def refused(self, driver: LaneDriver, refusal: KafkaRefusal) -> bool:
        """Handle a refused request of the lane's owner; return whether it may ask again. If not, the lane has stopped.

        Authorization errors (Kafka: `Errors` 29, 30, 31, 53) end when an operator grants the right.
        """
        if refusal.code in UNAUTHORIZED:
            self._deny(driver, _OWN, str(refusal))
            return True
        self._context.fail(driver, LaneRefused(flow=self._flow, lane=driver.name.source, what=str(refusal)))
        return False

    def fetch_denied(self, driver: LaneDriver, fault: FetchFault) -> None:
        """Note that the source does not let the lane fetch."""
        right = fault.right or SOMEBODY.needs_on_topic(Operation.READ, driver.name.source.topic)
        self._deny(driver, _FETCH, f"fetch: {fault.name} ({fault.code}); {right}")

    def fetched(self, driver: LaneDriver) -> None:
        """Note that the source has answered a fetch of the lane."""
        self._allow(driver, _FETCH)

    def allowed(self, driver: LaneDriver) -> None:
        """Note that the lane has an owner, or that its owner's request was answered."""
        self._allow(driver, _OWN)

    def append_denied(self, driver: LaneDriver, refused: RecordRefused) -> None:
        """Note that the target does not let the lane append records; the reason names the missing right."""
        self._deny(driver, _APPEND, f"append: {refused.reason} (error {refused.error_code})")

    def appended(self, driver: LaneDriver) -> None:
        """Note that the target has appended records of the lane."""
        self._allow(driver, _APPEND)

    def write_denied(self, driver: LaneDriver, denied: WriteDenied, topic: str) -> None:
        """Note that the target does not let the lane write to `topic`, which holds positions or map blocks."""
        self._deny(driver, denied.what, f"{denied.what} in topic {topic}: {denied.reason} (error {denied.error_code})")

    def write_allowed(self, driver: LaneDriver, what: str) -> None:
        """Note that the write that was denied succeeds now."""
        self._allow(driver, what)

    def keep_alive_denied(self, driver: LaneDriver, refusal: KafkaRefusal) -> None:
        """Note that the target does not let the lane keep its fence from expiring; the lane continues to copy."""
        self._deny(driver, _FENCE, f"keeping its transactional id alive: {refusal}")

    def kept_alive(self, driver: LaneDriver) -> None:
        """Note that the fence was kept alive."""
        self._allow(driver, _FENCE)

    def _deny(self, driver: LaneDriver, what_for: str, why: str) -> None:
        event = AccessDenied(flow=self._flow, lane=driver.name.source, what=why)
        if driver.health.deny(what_for, event.text()):
            self._context.events.report(event)

    def _allow(self, driver: LaneDriver, what_for: str) -> None:
        if driver.health.allow(what_for):
            self._context.events.report(LaneReleased(flow=self._flow, lane=driver.name.source))
