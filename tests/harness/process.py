"""Controls a copier process from outside: starts it, reads its lines, waits for it."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from engine.core.events.events import AnyEvent
from tests.harness.copier_process import Kill, Order, Told
from tests.harness.mirror import Mirror

E = TypeVar("E")
_ROOT = Path(__file__).parents[2]
DEADLINE_S = 180.0


class CopierProcess:
    """One process; `events` and `last` grow while `until` or `ended` waits."""

    def __init__(self, process: asyncio.subprocess.Process, epoch: int) -> None:
        self.epoch = epoch
        self.events: list[AnyEvent] = []
        self.last = Told()
        self._process = process

    @classmethod
    async def spawn(cls, mirror: Mirror, kill: Kill | None = None) -> "CopierProcess":
        """Start the interpreter at the next assignment epoch; it connects at `go`."""
        mirror.epoch += 1
        order = Order(
            source=mirror.source_servers,
            target=mirror.target_servers,
            options=mirror.options,
            epoch=mirror.epoch,
            lanes=mirror.lanes,
            kill=kill,
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.harness.copier_process",
            msgspec.json.encode(order).decode(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=_ROOT,
            limit=16 * 1024 * 1024,
        )
        return cls(process, mirror.epoch)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def go(self) -> None:
        """Let it connect and copy."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")

    async def until(self, holds: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
        """Listen until a condition holds; fails when the process ends first."""
        try:
            async with asyncio.timeout(deadline_s):
                while not holds():
                    assert await self._listen(), f"the copier ended before: {what}\n{self._describe()}"
        except TimeoutError:
            raise AssertionError(f"not within {deadline_s:.0f} s: {what}\n{self._describe()}") from None

    async def ended(self, deadline_s: float = DEADLINE_S) -> int:
        """Listen until it ends and return its exit code (-9: killed)."""
        try:
            async with asyncio.timeout(deadline_s):
                while await self._listen():
                    pass
                return await self._process.wait()
        except TimeoutError:
            raise AssertionError(f"still running after {deadline_s:.0f} s\n{self._describe()}") from None

    async def drain(self) -> None:
        """Ask it to stop and wait until it has drained."""
        self._process.terminate()
        assert await self.ended() == 0, self._describe()
        assert self.last.drained

    async def close(self) -> None:
        """Kill it if it still runs."""
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        # The transport keeps the pipes; an unread one would be reported as unclosed.
        self._process._transport.close()  # type: ignore[attr-defined]

    def kill(self) -> None:
        """kill -9, now."""
        self._process.kill()

    def told(self, kind: type[E]) -> list[E]:
        """Return the events of one kind so far."""
        return [event for event in self.events if isinstance(event, kind)]

    async def _listen(self) -> bool:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            return False
        self.last = msgspec.json.decode(line, type=Told)
        self.events += self.last.events
        return True

    def _describe(self) -> str:
        return "\n".join([repr(self.last), *(event.text() for event in self.events[-15:])])
