"""Rounds of a system that works by itself, as its output reports them."""

import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from bench.errors import BenchError

_POLL_S = 0.1


class TimedRound(Protocol):
    """A round: its start and end, Unix time in seconds."""

    @property
    def began_s(self) -> float: ...
    @property
    def ended_s(self) -> float: ...


R_co = TypeVar("R_co", bound=TimedRound, covariant=True)


class LoggedRounds(Generic[R_co]):
    """The rounds in an output file, which `read` finds in further lines; without `process`, its end is not noticed."""

    def __init__(
        self,
        system: str,
        log: Path,
        read: Callable[[Iterable[str]], Iterable[R_co]],
        process: "subprocess.Popen[bytes] | None" = None,
    ) -> None:
        self._system, self._log, self._read, self._process = system, log, read, process
        self._found: list[R_co] = []
        self._read_bytes = 0

    def _all(self) -> list[R_co]:
        """Return all rounds so far. Each line is read once: a mirror of tens of thousands of topics says megabytes."""
        self._found.extend(self._read(self._further_lines()))
        return self._found

    def _further_lines(self) -> Iterator[str]:
        """Yield the lines that are whole since the last call."""
        with self._log.open("rb") as log:
            log.seek(self._read_bytes)
            for line in log:
                if not line.endswith(b"\n"):
                    return
                self._read_bytes += len(line)
                yield line.decode(errors="replace")

    def seen(self) -> list[R_co]:
        """Return all rounds so far, in their order."""
        return list(self._all())

    def count_since(self, at_s: float) -> int:
        """Return how many rounds have ended since an instant, at least one."""
        return max(1, sum(one.ended_s >= at_s for one in self._all()))

    def next_after(self, at_s: float, deadline_s: float) -> R_co:
        """Wait for the first round that began after an instant. Raises BenchError, at once if the system has ended."""
        give_up_at = time.monotonic() + deadline_s
        while time.monotonic() < give_up_at:
            has_ended = self._process is not None and self._process.poll() is not None
            for one in self._all():
                if one.began_s >= at_s:
                    return one
            if has_ended:
                raise BenchError(self._system, "it ended before a round of its config sync")
            time.sleep(_POLL_S)
        raise BenchError(self._system, f"no round of its config sync within {deadline_s:.0f} s")
