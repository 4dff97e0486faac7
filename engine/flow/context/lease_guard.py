"""Guards the requests of a copier: open while its lease lasts. While it is shut, the copier starts nothing at a broker.

The broker refuses a stale owner anyway (its epoch is old). The guard stops a copier that knows, or could know, that it
may have been replaced. It is checked where requests are created, as late as Python can.
"""

import asyncio
from collections.abc import Callable, Coroutine
from math import inf
from typing import Any, TypeVar

from engine.base.clock import now_s

T = TypeVar("T")


class LeaseGuard:
    """Open while the lease lasts and it is not `shut`; `on_open` is called when it has opened again.

    `lease_until_s` is an instant of `engine.base.clock.now_s`. Any thread may set it, so the copier must call `notice`
    regularly.
    """

    def __init__(self, on_open: Callable[[], None]) -> None:
        self.lease_until_s = inf
        self.times_shut = 0
        self._on_open = on_open
        self._is_shut = False
        self._noticed = False
        self._turned_away = False
        self._opened = asyncio.Event()
        self._running: set[asyncio.Timeout] = set()

    @property
    def is_open(self) -> bool:
        """Whether a request may be started now. It reads the clock, because a thawed process runs its timers last."""
        if not self._is_shut and now_s() < self.lease_until_s:
            return True
        self._turned_away = True
        return False

    def shut(self) -> None:
        """Let nothing be started from now on, even if the lease lasts."""
        self._is_shut = True
        self.notice()

    def open(self) -> None:
        """Let things be started while the lease lasts."""
        self._is_shut = False
        self.notice()

    def notice(self) -> None:
        """React to an opening or shutting, which may have come by time alone."""
        if not self.is_open:
            self._notice_shut()
        elif self._turned_away:
            self._noticed = self._turned_away = False
            self._opened.set()
            self._on_open()

    def _notice_shut(self) -> None:
        if self._noticed:
            return
        self._noticed = True
        self.times_shut += 1
        self._opened.clear()
        running, self._running = self._running, set()
        for deadline in running:
            deadline.reschedule(0.0)

    async def while_open(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run the coroutine of `begin` while the guard is open; cancel it when it shuts, start again when it opens."""
        while True:
            while not self.is_open:
                self._notice_shut()
                await self._opened.wait()
            deadline = asyncio.timeout(None)
            try:
                async with deadline:
                    self._running.add(deadline)
                    return await begin()
            except TimeoutError:
                if not deadline.expired():
                    raise
            finally:
                self._running.discard(deadline)
