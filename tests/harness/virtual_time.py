"""Virtual time: a clock that moves only when every task waits, and then jumps to the next timer.

looptime, the library for it, moves only the time of the loop, and by steps. Here the product's clock moves with it, a
working thread must not be skipped, and a test that waits for nothing must fail and not hang.
"""

import asyncio
import selectors
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, TypeVar

from engine.base import clock
from engine.base.clock import MachineClock

T = TypeVar("T")
Events = list[tuple[selectors.SelectorKey, int]]

_START_S = 1000.0
_GLANCE_S = 1e-6
"""What a look at the clock takes. As on a real machine nobody reads the same instant twice, else a deadline of no
seconds would never have passed, and whoever looks at the clock until an instant has come would look for ever.
"""
MOST_TURNS = 200_000
"""Turns of the loop at one instant, until somebody must be spinning for what only time can bring."""
STRANGERS_S = 30.0
"""Real seconds that a loop waits for a thread it did not start, once nothing of its own is left to happen."""


class Stuck(AssertionError):
    """Nothing can happen any more, and somebody waits. The loop raises it, so no handler of a task can swallow it."""


class VirtualClock(MachineClock):
    """A clock that moves when it is told to; what day it is it takes from the real one, once."""

    def __init__(self) -> None:
        self._at_s = _START_S
        self._wall_s = time.time() - _START_S

    def wall_ms(self) -> int:
        return int((self._wall_s + self.now_s()) * 1000)

    def now_s(self) -> float:
        self._at_s += _GLANCE_S
        return self._at_s

    def phase(self) -> float:
        return 0.0

    def advance(self, duration_s: float) -> None:
        """Let time pass."""
        self._at_s += max(duration_s, 0.0)

    @property
    def at_s(self) -> float:
        """The instant it is, without a look at the clock."""
        return self._at_s


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop that goes by a virtual clock: with nothing ready, it is the time of the next timer.

    While a thread of its executor works, or a file is watched, its time passes as real time does: what comes of those
    may come before the next timer.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.threads_out: set[Future[Any]] = set()
        self.is_ending = False
        self._workers = ThreadPoolExecutor(thread_name_prefix="virtual")
        super().__init__(_Selector(self))  # watches a pipe of its own
        self.set_default_executor(self._workers)

    def time(self) -> float:
        return self.clock.at_s

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> "asyncio.Future[T]":
        """Keep count of who is out, until what came of it is on the loop: its callback is called before ours."""
        work = (executor or self._workers).submit(func, *args)
        self.threads_out.add(work)
        answered = asyncio.wrap_future(work, loop=self)
        work.add_done_callback(self._came_back)
        return answered

    def _came_back(self, work: Future[Any]) -> None:
        with suppress(RuntimeError):  # closed meanwhile: nobody counts any more
            self.call_soon_threadsafe(self.threads_out.discard, work)

    async def shutdown_default_executor(self) -> None:
        self.is_ending = True  # a thread of asyncio's own waits for those of the executor
        try:
            await super().shutdown_default_executor()
        finally:
            self.is_ending = False

    def strangers(self) -> list[threading.Thread]:
        """Threads that may speak to this loop although it did not start them."""
        workers = self._workers._threads
        return [one for one in threading.enumerate() if one not in workers and one is not threading.current_thread()]


class _Selector(selectors.DefaultSelector):
    """Where a loop waits: it asks for events within the time until its next timer, None if it has no timer."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop
        self._turns = 0

    def select(self, timeout: float | None = None) -> Events:
        events = super().select(0)
        if events or (timeout is not None and timeout <= 0):
            self._count_turn()
            return events
        self._turns = 0
        if self._loop.threads_out or self._loop.is_ending or len(self.get_map()) > 1:  # the one is the loop's own pipe
            return self._select_really(timeout)
        if timeout is None:
            return self._hear_strangers()
        self._loop.clock.advance(timeout)
        return []

    def _select_really(self, timeout: float | None) -> Events:
        began_s = time.monotonic()
        events = super().select(timeout)
        self._loop.clock.advance(time.monotonic() - began_s)
        return events

    def _hear_strangers(self) -> Events:
        events = self._select_really(STRANGERS_S) if self._loop.strangers() else []
        if not events:
            raise Stuck(
                f"nothing is ready, no timer is set and no thread is at work, but these wait: {self._waiting()}"
            )
        return events

    def _count_turn(self) -> None:
        self._turns = 0 if self._loop.threads_out else self._turns + 1
        if self._turns > MOST_TURNS:
            raise Stuck(f"{MOST_TURNS} turns of the loop at one instant: who spins? {self._waiting()}")

    def _waiting(self) -> str:
        return "; ".join(f"{task.get_name()} {task.get_coro()}" for task in asyncio.all_tasks(self._loop))


class TestLoops(asyncio.DefaultEventLoopPolicy):
    """Gives virtual loops while time is virtual, to pytest-asyncio and to `asyncio.run` alike; real ones otherwise."""

    __test__ = False
    clock: ClassVar[VirtualClock | None] = None

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return super().new_event_loop() if self.clock is None else VirtualLoop(self.clock)


@contextmanager
def virtual_time() -> Iterator[VirtualClock]:
    """Go by a virtual clock of its own."""
    virtual = VirtualClock()
    before, TestLoops.clock = clock.use(virtual), virtual
    try:
        yield virtual
    finally:
        TestLoops.clock = None
        clock.use(before)
