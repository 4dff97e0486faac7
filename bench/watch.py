"""Watches a run from outside: the target's ends and the CPU and memory of the processes, until nothing changes."""

import asyncio
import subprocess
import time
from collections.abc import Callable

import msgspec

from bench.errors import BenchError
from bench.kafka_peek import KafkaPeek
from bench.processes import ProcessTree, TreeSample
from bench.systems.launch import Job

LOOK_S = 0.02
DISCOVER_S = 0.5
START_TIMEOUT_S = 300.0
_SETTLE_S = 1.0
"""Seconds within which appends after the last record come (a second copy of it, a marker)."""
_STALL_TIMEOUT_S = 60.0
_MARKERS_BEFORE = 1


async def wait_until(
    system: str, otherwise: str, is_so: Callable[[], bool], process: "subprocess.Popen[bytes] | None" = None
) -> None:
    """Wait until something is so. Raises BenchError with `otherwise` if it takes too long, or if the process ends."""
    give_up_at = time.monotonic() + START_TIMEOUT_S
    while not is_so():
        if process is not None and process.poll() is not None:
            raise BenchError(system, f"{otherwise}: it ended with {process.returncode}")
        if time.monotonic() > give_up_at:
            raise BenchError(system, f"{otherwise} within {START_TIMEOUT_S:.0f} s")
        await asyncio.sleep(DISCOVER_S)


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """The state at one instant."""

    at: float
    ends: list[int]
    cpu: TreeSample

    @property
    def has_records(self) -> bool:
        """True if a partition holds more than the one marker that a fenced takeover writes before its first record."""
        return max(self.ends) > _MARKERS_BEFORE

    def has_all(self, counts: tuple[int, ...]) -> bool:
        """True if no partition ends before its count; markers may let it end behind."""
        return all(end >= count for end, count in zip(self.ends, counts, strict=True))


class Watch:
    """Polls the target and the processes until everything has arrived and nothing changes."""

    def __init__(self, system: str, job: Job, process: subprocess.Popen[bytes], peek: KafkaPeek) -> None:
        self._system, self._job, self._process, self._peek = system, job, process, peek
        self.tree = ProcessTree(process.pid)
        self._discovered_at = 0.0

    def watch(self) -> tuple[Look, Look]:
        """Return the polls that begin and end the window; raises BenchError if the system ends or makes no progress."""
        began_at = time.monotonic()
        first = self._look()
        while not (look := self._look()).has_records:
            first = look
            self._require_alive(look, began_at, START_TIMEOUT_S)
            time.sleep(LOOK_S)
        last = look
        while not (last.has_all(self._job.backlog.counts) and look.at - last.at >= _SETTLE_S):
            time.sleep(LOOK_S)
            look = self._look()
            if look.ends != last.ends:
                last = look
            self._require_alive(look, last.at, _STALL_TIMEOUT_S)
        return first, last

    def _look(self) -> Look:
        now = time.monotonic()
        if now - self._discovered_at >= DISCOVER_S:
            self.tree.discover()
            self._discovered_at = now
        backlog = self._job.backlog
        ends = self._peek.end_offsets(self._job.target_topic, backlog.partitions)
        return Look(at=time.monotonic(), ends=ends, cpu=self.tree.sample())

    def _require_alive(self, look: Look, since: float, timeout_s: float) -> None:
        what = f"{sum(look.ends)} of {self._job.backlog.records} records at the target"
        if self._process.poll() is not None:
            raise BenchError(self._system, f"ended by itself with {self._process.returncode}, {what}")
        if look.at - since > timeout_s:
            raise BenchError(self._system, f"no append for {timeout_s:.0f} s, {what}")


class Settling:
    """Whether a positive value has stayed within a margin for a time."""

    def __init__(self, *, within: int, for_s: float) -> None:
        self._within, self._for_s = within, for_s
        self.value, self._since = 0, 0.0
        self.is_settled = False

    def add(self, value: int, at: float) -> None:
        """Take a reading made at an instant of any clock that does not run backwards."""
        if value == 0 or abs(value - self.value) > self._within:
            self.value, self._since = value, at
        self.is_settled = self.value > 0 and at - self._since >= self._for_s
