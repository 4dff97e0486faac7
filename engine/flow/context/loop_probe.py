"""Measures how late the event loop of a copier runs its callbacks: its stalls, whatever causes them.

A timer that is due at a known instant runs as late as any callback that became due then. So the probe sets a timer when
records arrive, and none while none do: a copier at rest is not woken by it. Each sample is of one instant, so the part
of samples above a bound is the part of time in which a record would have waited that long for the loop: behind a long
callback, a collection of garbage, another thread with Python's lock, or another process with the processor.

Rejected: to time every callback. A callback that waits for Python's lock has not begun, so such a wait would not show;
and uvloop has no place to hook into. A timer that is always set would show stalls at rest too, but wakes the process.
"""

import asyncio

from engine.base.clock import now_s
from engine.core.reports.latency import LatencyHistogram

EVERY_S = 0.01
"""Seconds from records that arrive to the next sample: at most a hundred samples a second."""


class LoopProbe:
    """Adds samples to a histogram. uvloop's timers count whole milliseconds: a sample is up to 1 ms too high or low."""

    def __init__(self, late: LatencyHistogram) -> None:
        self._late = late
        self._due_s: float | None = None

    def sample(self) -> None:
        """Take a sample soon, unless one is due already: records have arrived."""
        if self._due_s is None:
            self._due_s = now_s() + EVERY_S
            asyncio.get_running_loop().call_later(EVERY_S, self._run)

    def _run(self) -> None:
        due_s, self._due_s = self._due_s, None
        if due_s is not None:
            self._late.add((now_s() - due_s) * 1000)
