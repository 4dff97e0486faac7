"""The clock of a process: the only module that sleeps or asks for the time.

A process has one clock, and `use` replaces it, as unit tests do. The clock is not passed as a value, because the timers
of asyncio (`asyncio.timeout`, `call_later`) use the time of the loop. A module whose clock differs from its loop's
would wait for an instant that never comes.

asyncio is imported only when something sleeps, so that commands that only read the clock start without it.
"""

import os
import random
import time

_TURN_S = 0.001
_LEAST_PART = 0.25
"""Least part of an interval to the next beat: whoever is late for a beat does not work twice in a row."""


class MachineClock:
    """The time of this machine."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def now_s(self) -> float:
        return time.monotonic()

    def phase(self) -> float:
        """Return the part of an interval by which the beats of this process are late: others shall not wake with it."""
        return os.getpid() % 64 / 64


_clock = MachineClock()


def use(clock: MachineClock) -> MachineClock:
    """Use this clock from now on, in the whole process; return the previous clock."""
    global _clock
    before, _clock = _clock, clock
    return before


def wall_ms() -> int:
    """Return milliseconds since the Unix epoch, for timestamps that others read."""
    return _clock.wall_ms()


def now_s() -> float:
    """Return a monotonic instant in seconds, for durations."""
    return _clock.now_s()


def cpu_s() -> float:
    """Return the CPU time that this process has used, in seconds."""
    return time.process_time()


async def pause(duration_s: float) -> None:
    """Sleep. For back-off and intervals only, never in the hope that something has happened by then."""
    import asyncio

    await asyncio.sleep(duration_s)


def beat_s(every_s: float) -> float:
    """Return the seconds to the process's next beat of an interval; a beat is at a multiple of it, by the loop's time.

    A process at rest is woken by little else than loops that look around once a second, and a wake costs more CPU than
    most looks. Loops that pause to the same beat wake it once. Rejected: one loop that calls all others. It would have
    to know them all, and a slow one would delay the others.
    """
    import asyncio

    left_s = every_s - (asyncio.get_running_loop().time() - _clock.phase() * every_s) % every_s
    return left_s if left_s > _LEAST_PART * every_s else left_s + every_s


class Turns:
    """Cuts long work on the event loop into turns of one millisecond of wall time; other tasks run between them."""

    def __init__(self) -> None:
        self._ends_s = now_s() + _TURN_S

    async def rest(self) -> None:
        """Let other tasks run if this turn is over; call it after each small step."""
        if now_s() >= self._ends_s:
            import asyncio

            await asyncio.sleep(0)
            self._ends_s = now_s() + _TURN_S


def backoff_s(attempt: int, first_s: float = 0.05, most_s: float = 2.0) -> float:
    """Return the seconds to wait before an attempt (1, 2, ...): doubling, bounded, with 20 % jitter."""
    return min(most_s, first_s * 2.0 ** min(attempt - 1, 16)) * random.uniform(0.8, 1.2)
