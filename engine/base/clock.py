"""Time, in one place: the only module that sleeps or asks what time it is.

A process has one clock, and `use` puts another in its place, as unit tests do. It is not passed in as a value: timers
of asyncio (`asyncio.timeout`, `call_later`) go by the time of the loop, which nobody passes in either, and a module
that had one clock while its loop had another would wait for an instant that never comes.

asyncio is imported where something sleeps: commands that only look at the clock start without it.
"""

import random
import time

_TURN_S = 0.001


class MachineClock:
    """The time of this machine."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def now_s(self) -> float:
        return time.monotonic()


_clock = MachineClock()


def use(clock: MachineClock) -> MachineClock:
    """Go by this clock from now on, in all of the process; returns the one before."""
    global _clock
    before, _clock = _clock, clock
    return before


def wall_ms() -> int:
    """Return milliseconds since the epoch, for timestamps that others read."""
    return _clock.wall_ms()


def now_s() -> float:
    """Return a monotonic instant in seconds, for durations."""
    return _clock.now_s()


def cpu_s() -> float:
    """Return the CPU time that this process has used, in seconds."""
    return time.process_time()


async def pause(duration_s: float) -> None:
    """Wait; for back-off and cadence, never to make something happen by then."""
    import asyncio

    await asyncio.sleep(duration_s)


class Turns:
    """Cuts long work on the event loop into turns of a millisecond of wall time; everything else runs between them."""

    def __init__(self) -> None:
        self._ends_s = now_s() + _TURN_S

    async def rest(self) -> None:
        """Let the loop go round where this turn is over; to be called after each small step."""
        if now_s() >= self._ends_s:
            import asyncio

            await asyncio.sleep(0)
            self._ends_s = now_s() + _TURN_S


def backoff_s(attempt: int, first_s: float = 0.05, most_s: float = 2.0) -> float:
    """Return the pause before an attempt (1, 2, ...): doubling, bounded, with a fifth of jitter."""
    return min(most_s, first_s * 2.0 ** min(attempt - 1, 16)) * random.uniform(0.8, 1.2)
