"""Delays the bytes of one direction of a connection: in order, each due a fixed time after arrival, bounded in size."""

import asyncio
from collections import deque

from deploy.local.frames import FramePart

_PENDING_BYTES = 64 * 1024 * 1024
"""Bytes a direction may hold: 5 Gbit/s at 100 ms, above which the proxy itself would be the bottleneck."""


class Delay:
    """A queue with one writer (`put`, `end`) and one reader (`next_due`, `pop`)."""

    def __init__(self) -> None:
        self.waiting: deque[FramePart] = deque()
        """Pieces that have arrived and are not yet written, the one being written first."""
        self._due_at: deque[float] = deque()
        self._bytes = 0
        self._has_ended = False
        self._changed = asyncio.Event()

    async def put(self, piece: FramePart, delay_s: float) -> None:
        """Add a piece; waits while the queue is full."""
        due_at = asyncio.get_running_loop().time() + delay_s
        while self._bytes >= _PENDING_BYTES:
            await self._wait_change()
        self.waiting.append(piece)
        self._due_at.append(due_at)
        self._bytes += len(piece.data)
        self._changed.set()

    def end(self) -> None:
        """Note that no more pieces will be put."""
        self._has_ended = True
        self._changed.set()

    async def next_due(self) -> FramePart | None:
        """Return the oldest piece when it is due, leaving it in the queue; None after the last one."""
        while not self.waiting:
            if self._has_ended:
                return None
            await self._wait_change()
        left_s = self._due_at[0] - asyncio.get_running_loop().time()
        if left_s > 0:
            await asyncio.sleep(left_s)
        return self.waiting[0]

    def pop(self) -> None:
        """Drop the piece that `next_due` returned, now that it is written."""
        self._bytes -= len(self.waiting.popleft().data)
        self._due_at.popleft()
        self._changed.set()

    async def _wait_change(self) -> None:
        # Writer and reader never wait at the same time (one waits when full, the other when empty): one event suffices.
        self._changed.clear()
        await self._changed.wait()
