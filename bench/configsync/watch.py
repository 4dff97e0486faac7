"""Waits until copies have the right configs, in its own process, so that it takes no time from the measured system."""

import asyncio
import multiprocessing
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

from bench.admin import admin
from bench.configsync.topics import behind
from bench.errors import BenchError

_START_S = 60.0
_POLL_S = 0.05
_SAMPLE = 5


class Watch:
    """A watch over the copies of one target, as a context manager; `patience_s`: how long it waits for a value."""

    def __init__(self, target: str, patience_s: float) -> None:
        self._patience_s = patience_s
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(target, other, patience_s), daemon=True)

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipe.close()  # which ends it
        self._process.join(_START_S)

    def begin(self, copies: Sequence[str], value: str) -> None:
        """Start to check; returns after the first check."""
        self._pipe.send((list(copies), value))
        self._receive(_START_S)

    def there_s(self) -> float:
        """Wait until every copy has the value; return the Unix time of the check that saw it. Raises BenchError."""
        return float(self._receive(self._patience_s + _START_S))

    def _receive(self, within_s: float) -> Any:
        if not self._pipe.poll(within_s):
            raise BenchError("configsync", f"the watch process printed nothing for {within_s:.0f} s")
        try:
            said = self._pipe.recv()
        except EOFError:
            raise BenchError("configsync", "the watch process has ended by itself") from None
        if isinstance(said, str):
            raise BenchError("configsync", said)
        return said


def _serve(target: str, pipe: Connection, patience_s: float) -> None:
    asyncio.run(_watch(target, pipe, patience_s))


async def _watch(target: str, pipe: Connection, patience_s: float) -> None:
    async with admin(target) as client:
        while True:
            try:
                copies, value = pipe.recv()  # this process has nothing else to do
            except EOFError:
                return
            pipe.send(await _until_there(client, copies, value, pipe, patience_s))


async def _until_there(
    client: Any, copies: Sequence[str], value: str, pipe: Connection, patience_s: float
) -> float | str:
    sample = copies[:: max(1, len(copies) // _SAMPLE)]
    await behind(client, sample, value)
    pipe.send(0.0)
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        seen_s = time.time()
        # A few topics are cheap to read, so the checks cost the measured system little.
        if not await behind(client, sample, value) and not await behind(client, copies, value):
            return seen_s
        await asyncio.sleep(_POLL_S)
    return f"{len(await behind(client, copies, value))} copies do not have the new value after {patience_s:.0f} s"
