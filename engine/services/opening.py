"""Connects to the clusters of a flow before it copies, and retries as long as one of them is unreachable.

If a copier died whenever a cluster is down, its restarts would be useless, and it would start later than the cluster.
So a copier waits in its process, reports what it waits for, and shows by its ticks that it is not stuck.
"""

import asyncio
from collections.abc import Awaitable, Callable

from engine.base.clock import backoff_s, pause
from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.base.tasks import first_cause

_TICK_S = 0.5


class Opening:
    """Calls `reach` until it succeeds or `give_up` is called; calls `tick` twice a second during that time."""

    def __init__(self, reach: Callable[[], Awaitable[None]], tick: Callable[[], None]) -> None:
        self.trouble = ""
        """Which cluster does not answer, and why; empty when all answer."""
        self.is_done = False
        """Whether all clusters are open."""
        self._reach, self._tick = reach, tick
        self._given_up = asyncio.Event()

    def give_up(self) -> None:
        """Stop trying; `run` returns False."""
        self._given_up.set()

    async def run(self) -> bool:
        """Return True when all clusters are open, False after `give_up`. Raises errors that waiting does not fix."""
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
