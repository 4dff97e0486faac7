"""The limits of one input: CPU seconds and memory."""

import signal
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

CPU_S = 10.0
"""CPU time of the process for one input; a reader of a few kilobytes needs milliseconds."""
LEAST_BYTES = 2 << 20
"""What Python's objects for a small input may cost, whatever its size; a length field that is believed costs more."""


class Hangs(Exception):
    """An input takes too long."""


class Bloats(Exception):
    """An input takes too much memory."""


@contextmanager
def limited(size: int, least: int = LEAST_BYTES) -> Iterator[None]:
    """Bound what happens inside for an input of `size` bytes. Raises Hangs, Bloats. Main thread only."""
    before = signal.signal(signal.SIGVTALRM, _hangs)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_S)
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        tracemalloc.stop()
    if peak > least + 2 * size:
        raise Bloats(f"{peak:,} bytes for an input of {size:,}")


def _hangs(_signal: int, _frame: object) -> None:
    raise Hangs(f"more than {CPU_S:g} s of CPU time")
