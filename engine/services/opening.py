"""Reaching the clusters of a flow before it can copy: tried again for as long as one of them is away.

A process that dies because a cluster does is started again for nothing, and later than the cluster. So a copier waits
by itself, says for what, and shows by its ticks that it is not stuck.
"""

import asyncio
from collections.abc import Awaitable, Callable

from engine.base.clock import backoff_s, pause
from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.base.tasks import first_cause

_TICK_S = 0.5


class Opening:
    """Tries `reach` until it comes through or nobody wants it any more; `tick` is called twice a second meanwhile."""

    def __init__(self, reach: Callable[[], Awaitable[None]], tick: Callable[[], None]) -> None:
        self.trouble = ""
        """Which cluster does not answer, and why; empty when all do."""
        self.is_done = False
        """Whether all is open."""
        self._reach, self._tick = reach, tick
        self._given_up = asyncio.Event()

    def give_up(self) -> None:
        """Try no more."""
        self._given_up.set()

    async def run(self) -> bool:
        """Return when all is open, False when it was given up before; raises what waiting does not mend, a refusal."""
        try:
            async with asyncio.TaskGroup() as group:
                ticking = group.create_task(self._keep_ticking())
                reaching = group.create_task(self._try())
                waiting = group.create_task(self._given_up.wait())
                await asyncio.wait((reaching, waiting), return_when=asyncio.FIRST_COMPLETED)
                for task in (ticking, reaching, waiting):
                    task.cancel()
        except BaseExceptionGroup as failures:
            raise first_cause(failures) from failures
        return not reaching.cancelled()

    async def _keep_ticking(self) -> None:
        while True:
            self._tick()
            await pause(_TICK_S)

    async def _try(self) -> None:
        attempt = 0
        while True:
            try:
                await self._reach()
            except (BrokerUnreachable, ConnectionLost) as away:
                self.trouble = str(away)
                attempt += 1
                await pause(backoff_s(attempt))
            else:
                self.trouble, self.is_done = "", True
                return
