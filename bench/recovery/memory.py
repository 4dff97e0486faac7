"""Resident memory of the mirror's processes by role, and whether it grew."""

import statistics
import threading
from collections.abc import Callable, Mapping, Sequence

import msgspec
import psutil

EVERY_S = 10.0
_MIB = 1024 * 1024
GROWTH_ALLOWED, SLACK_MIB = 1.1, 16.0
"""A role's memory counts as flat if its last third is at most this factor times its second third, plus this slack."""

Readings = Mapping[str, Sequence[float]]
"""MiB of the largest process of each role, reading by reading."""


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """One role: median of the largest process in the second and the last third of the time, and the highest; MiB.

    The first third does not count: buffers and Java-like warm-up of caches grow there once.
    """

    middle_mib: float
    last_mib: float
    peak_mib: float
    is_flat: bool


def summarise(readings: Readings) -> dict[str, Memory]:
    """Sum up each role with at least three readings."""
    found = {}
    for role, values in readings.items():
        third = len(values) // 3
        if third:
            middle, last = statistics.median(values[third : 2 * third]), statistics.median(values[2 * third :])
            flat = last <= middle * GROWTH_ALLOWED + SLACK_MIB
            found[role] = Memory(
                middle_mib=round(middle, 1), last_mib=round(last, 1), peak_mib=round(max(values), 1), is_flat=flat
            )
    return found


class MemoryWatch(threading.Thread):
    """Reads every ten seconds until stopped; `look` gives the processes of each role."""

    def __init__(self, look: Callable[[], Mapping[str, Sequence[psutil.Process]]]) -> None:
        super().__init__(daemon=True)
        self.readings: dict[str, list[float]] = {}
        self._look, self._stopping = look, threading.Event()

    def run(self) -> None:
        """Read until stopped."""
        while not self._stopping.wait(EVERY_S):
            for role, processes in self._look().items():
                if sizes := [size for one in processes if (size := _rss_mib(one))]:
                    self.readings.setdefault(role, []).append(max(sizes))

    def stop(self) -> None:
        """End it."""
        self._stopping.set()
        self.join(EVERY_S)


def _rss_mib(process: psutil.Process) -> float:
    try:
        return float(process.memory_info().rss) / _MIB
    except psutil.NoSuchProcess:
        return 0.0
