"""The clock of a process: the only module that sleeps or asks for the time.

A process has one clock, and `use` replaces it, as unit tests do. The clock is not passed as a value, because the timers
of asyncio (`asyncio.timeout`, `call_later`) use the time of the loop. A module whose clock differs from its loop's
would wait for an instant that never comes.

asyncio is imported only when something sleeps, so that commands that only read the clock start without it.
"""

import os
import random
import time

import msgspec

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
    left_s = every_s - (_loop_s() - _clock.phase() * every_s) % every_s
    return left_s if left_s > _LEAST_PART * every_s else left_s + every_s


def _loop_s() -> float:
    import asyncio

    return asyncio.get_running_loop().time()


class Beats:
    """The beats of one loop whose work may take most of its interval, and keeps its rate all the same.

    Only beats that come while the loop works are left out. With `beat_s` a loop whose work takes the last quarter of
    its interval would work at half the rate.
    """

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._at_s = _loop_s() + beat_s(every_s)

    async def wait(self) -> None:
        """Sleep until the next beat. A beat is counted, so a timer that fires early does not bring it twice."""
        late_s = _loop_s() - self._at_s
        if late_s >= 0:
            self._at_s += (late_s // self._every_s + 1) * self._every_s
        await pause(self._at_s - _loop_s())
        self._at_s += self._every_s


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


class Backoff(msgspec.Struct, frozen=True):
    """Growing pauses between attempts: the first one, doubled each time up to the longest, in seconds."""

    first_s: float = 0.05
    most_s: float = 2.0

    def after_s(self, attempt: int) -> float:
        """Return the seconds to wait before an attempt (1, 2, ...), with jitter."""
        return backoff_s(attempt, self.first_s, self.most_s)
