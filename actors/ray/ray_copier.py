"""A copier actor as the supervisor sees it: sends orders repeatedly, receives reports, detects its end."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from ray.exceptions import ActorUnavailableError, RayError, RayTaskError

from actors.calls import CALL_TIMEOUT_S, bounded, explain, process_ended
from actors.control.ports import ActorUnreachable, CopierVitals
from actors.model.messages import Orders, Report
from actors.ray.copier_actor import REST_PATIENCE_S
from engine.base.clock import now_s
from engine.base.errors import MirrorError
from engine.core.reports.progress import FlowProgress
from policies.model import FlowName

UNKNOWN_PAUSE_S = 0.5  # between two calls to an actor that Ray reports as unavailable: unknown, not dead
REPORTS_KEPT = 64
_ANSWER_S = CALL_TIMEOUT_S + REST_PATIENCE_S
"""A copier at rest delays its answer."""
NOT_YET = Orders(term=0, version=0, sets=None, lease_s=0.0)


class RayCopier:
    """A CopierPort over an actor handle. `changed` is set when the supervisor should do a step at once."""

    def __init__(
        self, handle: Any, flow: FlowName, copier_id: str, group: asyncio.TaskGroup, changed: asyncio.Event
    ) -> None:
        self.flow, self.copier_id = flow, copier_id
        self.handle = handle
        self.trouble = ""
        self.granted_until_s = 0.0
        self._group, self._changed = group, changed
        self._vital = CopierVitals(state="starting")
        self._orders = NOT_YET
        self._quiet = False
        self._spoken = asyncio.Event()
        self._last: Report | None = None
        self._last_at_s = 0.0
        self._reports: deque[Report] = deque(maxlen=REPORTS_KEPT)
        self._tasks = [group.create_task(self._park()), group.create_task(self._converse())]

    def vital(self) -> CopierVitals:
        """Return whether it lives, from the parked call."""
        return self._vital

    def send(self, orders: Orders) -> None:
        """Send these orders from now on, repeatedly; at once if they are new."""
        new = (orders.term, orders.version) != (self._orders.term, self._orders.version)
        self._orders = orders
        if not self._spoken.is_set():
            self._spoken.set()  # they start `_converse`
        elif new and self._living():
            self._tasks.append(self._group.create_task(self._attend()))

    def hush(self) -> None:
        self._quiet = True

    def reports(self) -> Sequence[Report]:
        taken = tuple(self._reports)
        self._reports.clear()
        return taken

    def end(self) -> None:
        """Cancel all calls; do not touch the actor itself."""
        self._quiet = True
        for task in self._tasks:
            task.cancel()

    def _living(self) -> bool:
        return self._vital.state in ("starting", "ready") and not self._quiet

    async def _park(self) -> None:
        """Wait for the actor's first answer, then for its end. Returns when it has ended."""
        while self._vital.state in ("starting", "ready"):
            try:
                await self.handle.hello.remote()
                self._vital = CopierVitals(state="ready")
                self._changed.set()
                last = await self.handle.wait_closed.remote()
                self._vital = CopierVitals(state="closed", last=msgspec.msgpack.decode(last, type=FlowProgress))
            except ActorUnavailableError:
                await asyncio.sleep(UNKNOWN_PAUSE_S)
            except RayError as error:
                state: Literal["dead", "lost"] = "dead" if process_ended(error) else "lost"
                told = isinstance(error, RayTaskError) and isinstance(error.cause, MirrorError)
                self._vital = CopierVitals(state=state, cause=explain(error), blameless=told)
            self._changed.set()

    async def _converse(self) -> None:
        await self._spoken.wait()
        while self._living():
            await self._attend()
            if self.trouble:
                await asyncio.sleep(UNKNOWN_PAUSE_S)
            self._tasks = [task for task in self._tasks if not task.done()]

    async def _attend(self) -> None:
        orders, known = self._granting(self._orders), self._last
        try:
            call = self.handle.attend.remote(msgspec.msgpack.encode(orders))
            answer = await bounded(self.copier_id, "attend", call, _ANSWER_S)
            report = _whole(msgspec.msgpack.decode(answer, type=Report), known)
        except ActorUnreachable as unreachable:
            self.trouble = str(unreachable)
            return
        self.trouble = ""
        before, self._last, self._last_at_s = self._last, report, now_s()
        self._reports.append(report)
        if before is None or (before.version, before.held) != (report.version, report.held):
            self._changed.set()

    def _granting(self, orders: Orders) -> Orders:
        """Add the lease, and leave out sets that the copier has confirmed."""
        last = self._last
        if last is None:
            return orders
        self.granted_until_s = max(self.granted_until_s, self._last_at_s + orders.lease_s)
        confirmed = (last.term, last.version) == (orders.term, orders.version)
        return msgspec.structs.replace(
            orders, stamp=last.stamp, sample=last.sample, sets=None if confirmed else orders.sets
        )


def _whole(report: Report, known: Report | None) -> Report:
    """Return a report with the lanes of the one that was known when it was asked for, if it has left them out."""
    if known is None or not report.same_lanes:
        return report
    progress = msgspec.structs.replace(report.progress, lanes=known.progress.lanes)
    return msgspec.structs.replace(report, progress=progress)
