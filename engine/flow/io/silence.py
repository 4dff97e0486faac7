"""Reports a broker that takes requests and answers none."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

SILENT_S = 2.0
"""After this many seconds without an answer that is due, a broker may have lost its leaderships: others are asked."""


class Watcher(Protocol):
    """Whoever acts on a silent broker."""

    def silent(self) -> None:
        """The broker takes requests and answers none."""


@contextmanager
def watched(watcher: Watcher, every_s: float) -> Iterator[None]:
    """Report the broker as silent every `every_s` seconds, for as long as this lasts."""
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []

    def say() -> None:
        timers[:] = [loop.call_later(every_s, say)]
        watcher.silent()

    timers.append(loop.call_later(every_s, say))
    try:
        yield
    finally:
        timers[0].cancel()
