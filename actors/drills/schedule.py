"""Decides when a mirror drills a flow by itself, and knows the last drill, whoever ran it.

Metadata decides, because it knows whether this mirror owns the flow. The drill runs elsewhere (`start`): translating
thousands of groups would delay discovery, checkpoints and the renewal of the ownership in this process.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from engine.base.clock import pause, wall_ms
from engine.base.errors import MirrorError
from engine.core.reports.drill_report import DrillReport, DrillStanding
from policies.dr.drill_schedule import DrillSchedule

LOOK_S, REST_LOOK_S = 60.0, 300.0
"""Seconds between two looks at the last drill; REST_LOOK_S: if no drill is scheduled."""
AGAIN_S = 3600.0
"""A scheduled drill that stored no result is tried again so long after it began."""
_log = logging.getLogger("raymirror")


class ReadsLast(Protocol):
    """The part of `engine.services.drill.reader.DrillReader` that is used."""

    async def last(self) -> DrillReport | None: ...


class DrillScheduler:
    """The drills of one flow. `start` runs one to its end and returns why it failed, empty if it stored a result."""

    def __init__(
        self,
        flow: str,
        schedule: DrillSchedule,
        reader: Callable[[], AbstractAsyncContextManager[ReadsLast]],
        start: Callable[[], Awaitable[str]],
    ) -> None:
        self._flow, self._schedule, self._reader, self._start = flow, schedule, reader, start
        self.may_drill: Callable[[], bool] = lambda: False
        """Whether this mirror owns the flow, and the flow is to run."""
        self._failed_at_ms = -1
        self._standing = DrillStanding(every_s=schedule.every_s, since_ms=wall_ms())

    @property
    def standing(self) -> DrillStanding:
        """What is known now."""
        return self._standing

    async def run(self) -> None:
        """Look, and drill when it is time, until cancelled; no failure ends it."""
        while True:
            try:
                async with self._reader() as reader:
                    await self._look_again(reader)
            except (MirrorError, OSError, TimeoutError) as failure:
                self._set(trouble=str(failure))
                await pause(LOOK_S)

    async def _look_again(self, reader: ReadsLast) -> None:
        while True:
            last = await reader.last()
            self._set(last=last, trouble=self._standing.trouble if self._failed_at_ms >= 0 else "")
            if self._is_due() and self.may_drill():
                await self._drill()
                continue
            await pause(LOOK_S if self._schedule.is_on else REST_LOOK_S)

    def _is_due(self) -> bool:
        """Whether it is time now; notes when it will be."""
        last = self._standing.last
        due_ms = self._schedule.due_ms(last.began_ms if last is not None else -1, self._standing.since_ms)
        if due_ms >= 0 and self._failed_at_ms >= 0:
            due_ms = max(due_ms, self._failed_at_ms + int(AGAIN_S * 1000))
        self._set(next_ms=due_ms)
        return 0 <= due_ms <= wall_ms()

    async def _drill(self) -> None:
        began_ms = wall_ms()
        self._set(runs=True)
        try:
            why = await self._start()
        finally:
            self._set(runs=False)
        self._failed_at_ms = began_ms if why else -1
        self._set(trouble=f"the scheduled drill did not run: {why}" if why else "")
        if why:
            _log.warning("drill of %s: %s", self._flow, why, extra={"flow": self._flow})

    def _set(self, **changes: object) -> None:
        self._standing = msgspec.structs.replace(self._standing, **changes)
