"""Times every callback of asyncio's own loop: the longest ones by name, and the collections of garbage in them."""

import asyncio
import gc
import time
from asyncio.events import Handle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

LONG_S = 0.001


class OfName:
    """The callbacks of one name: how many, how many took more than LONG_S of CPU time, and the longest."""

    def __init__(self) -> None:
        self.count = self.long = 0
        self.wall_s = self.cpu_s = self.sum_cpu_s = 0.0

    def add(self, wall_s: float, cpu_s: float) -> None:
        """Count one callback."""
        self.count += 1
        self.long += cpu_s > LONG_S
        self.wall_s, self.cpu_s = max(self.wall_s, wall_s), max(self.cpu_s, cpu_s)
        self.sum_cpu_s += cpu_s


class Callbacks:
    """Measures the callbacks of a loop."""

    def __init__(self) -> None:
        self.by_name: dict[str, OfName] = {}
        self.collections: list[tuple[int, float]] = []
        """Generation and CPU seconds of each collection of garbage."""
        self._collection_began_s = 0.0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Time every callback of asyncio's own loop."""
        run: Callable[[Handle], None] = vars(Handle)["_run"]

        def timed(handle: Handle) -> None:
            wall, cpu = time.perf_counter(), time.thread_time()
            name = _name(handle)
            try:
                run(handle)
            finally:
                cpu_s, wall_s = time.thread_time() - cpu, time.perf_counter() - wall
                self.by_name.setdefault(name, OfName()).add(wall_s, cpu_s)

        setattr(Handle, "_run", timed)  # noqa: B010 - a method of the loop's own
        gc.callbacks.append(self._collected)
        try:
            yield
        finally:
            gc.callbacks.remove(self._collected)
            setattr(Handle, "_run", run)  # noqa: B010

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collection_began_s = time.thread_time()
        else:
            self.collections.append((info["generation"], time.thread_time() - self._collection_began_s))

    def report(self) -> dict[str, Any]:
        """Return the maxima, in milliseconds."""
        names = self.by_name.values()
        return {
            "callbacks": sum(one.count for one in names),
            "longest_wall_ms": _ms(max((one.wall_s for one in names), default=0.0)),
            "longest_cpu_ms": _ms(max((one.cpu_s for one in names), default=0.0)),
            "longest_collection_cpu_ms": _ms(max((cpu_s for _, cpu_s in self.collections), default=0.0)),
        }

    def by_length(self, most: int = 12) -> list[dict[str, Any]]:
        """Return the names with the longest callbacks by CPU time, and all collections of garbage by generation."""
        longest = sorted(self.by_name.items(), key=lambda item: -item[1].cpu_s)[:most]
        found = [
            {
                "name": name,
                "count": one.count,
                "longer_than_1_ms": one.long,
                "longest_cpu_ms": _ms(one.cpu_s),
                "sum_cpu_ms": _ms(one.sum_cpu_s),
            }
            for name, one in longest
        ]
        for generation in range(3):
            took_s = [cpu_s for number, cpu_s in self.collections if number == generation]
            if took_s:
                found.append(
                    {
                        "name": f"collections of generation {generation}",
                        "count": len(took_s),
                        "longer_than_1_ms": sum(cpu_s > LONG_S for cpu_s in took_s),
                        "longest_cpu_ms": _ms(max(took_s)),
                        "sum_cpu_ms": _ms(sum(took_s)),
                    }
                )
        return found


def _name(handle: Handle) -> str:
    """Name what a handle runs: of a step of a task its coroutine, with the function that it waits in."""
    callback = vars(Handle)["_callback"].__get__(handle)
    owner = getattr(callback, "__self__", None)
    if not isinstance(owner, asyncio.Task):
        return str(getattr(callback, "__qualname__", callback))
    coroutine: Any = owner.get_coro()
    names: list[str] = []
    while coroutine is not None and len(names) < 4:
        names.append(getattr(coroutine, "__qualname__", type(coroutine).__name__))
        coroutine = getattr(coroutine, "cr_await", None)
    return " > ".join(names)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)
