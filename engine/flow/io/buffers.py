"""The memory budget of a copier: receive buffers, leased to fetch answers until every batch in them is settled.

The budget is the only bound on data in a copier: a fetch is not sent before its answer fits, so the slowest target
slows down the source. One batch larger than a whole fetch may exceed it (KIP-74: a broker always returns one batch).

Batches outside of receive buffers count too (`BufferLease.own`): re-encoded batches, and batches of lanes in trouble
that were copied out of their receive buffer. The latter are stuck: they were sent and may have been appended, so they
cannot be dropped and fetched again. A part of the budget is always left to receive what other lanes can send.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from engine.base.clock import now_s
from engine.base.tasks import in_thread

T = TypeVar("T")

BUFFER_BYTES = 2 * 1024 * 1024
"""One fetch answer, reserved by each inbox, also while its broker has nothing."""
_LARGE_BUFFERS = 2
"""A large buffer has the size of two: eight partitions with a backlog fill an answer with 512 KiB each. So a request to
the target has batches of many partitions."""
_HEADER_BYTES = 64 * 1024
"""What an answer may have beside records: names of topics, and transactions that were aborted."""
_SMALL_BYTES = 256 * 1024
"""Smaller answers get memory of exactly their size: a slow trickle must not hold a whole buffer per fetch.

So do all that leave half of a buffer empty, while more than half of the budget is in use. New memory costs up to 1 ms.
But lanes with long backlogs of small batches, each fetched alone, would hold all buffers, a quarter of each filled."""
_LEFT_TO_RECEIVE = 4
"""Stuck batches leave this part (1/4) of the budget free; without it, enough stuck batches would stop all copying."""


class BufferLease:
    """Memory for one fetch answer, shared by the batches in it; goes back when the last share is released."""

    __slots__ = ("_buffer", "_bytes", "_is_exact", "_pool", "_shares", "_stuck", "began_s")

    def __init__(self, pool: "BufferPool", reserved_bytes: int, *, stuck: bool = False, is_exact: bool = False) -> None:
        self._pool = pool
        self._is_exact = is_exact
        self._bytes = reserved_bytes
        self._stuck = stuck
        self._shares = 1
        self._buffer: bytearray | None = None
        self.began_s: float | None = None
        """When the answer began to arrive; None before that."""

    def room(self, size: int) -> memoryview:
        """Return writable memory of `size` bytes; called once, when the answer's size is known."""
        self.began_s = now_s()
        self._buffer, taken = (bytearray(size), size) if self._is_exact else self._pool.take(size, self._bytes)
        self._pool.account(taken - self._bytes)
        self._bytes = taken
        return memoryview(self._buffer)[:size]

    @property
    def answer_bytes(self) -> int:
        """The most bytes of records that a fetch may ask for, so that its answer fits with its header."""
        return self._bytes - min(_HEADER_BYTES, self._bytes // 2)

    def widen(self) -> None:
        """Reserve a large buffer, unless others need the memory; only before `room`."""
        self._bytes += self._pool.widen()

    def own(self, size: int, *, stuck: bool) -> "BufferLease":
        """Count `size` bytes that one batch owns; `stuck`: it must be kept until its outcome is known."""
        return self._pool.own(size, stuck=stuck)

    def retain(self) -> "BufferLease":
        """Take another share."""
        self._shares += 1
        return self

    def release(self) -> None:
        """Give one share back; with the last one the memory returns to the pool."""
        self._shares -= 1
        if self._shares == 0:
            buffer, self._buffer = self._buffer, None
            self._pool.give_back(buffer, self._bytes, stuck=self._stuck)


class _FreeBuffers:
    """Buffers of one size that are used again."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._buffers: list[bytearray] = []
        self._unneeded = 0
        """The smallest number of them since the last `shed`."""

    def __len__(self) -> int:
        return len(self._buffers)

    @property
    def bytes(self) -> int:
        """Their bytes together."""
        return len(self._buffers) * self.size

    def take(self) -> bytearray:
        """Return one of them, or a new one."""
        buffer = self._buffers.pop() if self._buffers else bytearray(self.size)
        self._unneeded = min(self._unneeded, len(self._buffers))
        return buffer

    def keep(self, buffer: bytearray) -> None:
        """Add one."""
        self._buffers.append(buffer)

    def fit(self, most_bytes: int) -> None:
        """Drop those that exceed these bytes."""
        most = max(0, most_bytes) // self.size
        if len(self._buffers) > most:
            del self._buffers[most:]
            self._unneeded = min(self._unneeded, most)

    def shed(self) -> None:
        """Drop those that were not needed since the last call."""
        del self._buffers[: self._unneeded]
        self._unneeded = len(self._buffers)


class BufferPool:
    """At most `budget_bytes` of leased memory; buffers are used again."""

    def __init__(self, budget_bytes: int, buffer_bytes: int = BUFFER_BYTES) -> None:
        self.budget_bytes = max(budget_bytes, buffer_bytes)
        self.buffer_bytes = buffer_bytes
        self.used_bytes = 0
        self.stuck_bytes = 0
        """The part of `used_bytes` in batches of lanes in trouble, which must be kept."""
        self.beside = asyncio.Lock()
        """Held while `work_beside` runs: one large decompression at a time."""
        self.short = asyncio.Event()
        """Set when a fetch has to wait for memory; `GivingBack` waits for this event and clears it."""
        self._free, self._large = _FreeBuffers(buffer_bytes), _FreeBuffers(_LARGE_BUFFERS * buffer_bytes)
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._is_rationed = False

    @property
    def is_short(self) -> bool:
        """Whether a fetch waits for memory, or left lanes out because memory was short and is short still.

        All inboxes may sleep since then, so that no lease shows that there is memory again.
        """
        return bool(self._waiters) or (self._is_rationed and not self._fits())

    @property
    def is_spent(self) -> bool:
        """Whether another fetch would have to wait for memory."""
        return bool(self._waiters) or not self._fits()

    @property
    def is_half_used(self) -> bool:
        """Whether more than half of the budget is in use."""
        return 2 * self.used_bytes > self.budget_bytes

    @property
    def free_buffers(self) -> int:
        """How many buffers are kept for use again."""
        return len(self._free) + len(self._large)

    async def lease(self) -> BufferLease:
        """Wait until a whole buffer fits into the budget, first come first served."""
        if not self._waiters and self._fits():
            self.used_bytes += self.buffer_bytes
            self._is_rationed = self._is_rationed and not self._fits()
            return BufferLease(self, self.buffer_bytes)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self.short.set()
        try:
            await waiter
        except asyncio.CancelledError:
            self._forget(waiter)
            raise
        return BufferLease(self, self.buffer_bytes)  # `_wake` has counted its bytes already

    def try_lease(self, size: int, *, whole: bool) -> BufferLease | None:
        """Lease exactly `size` bytes if they fit now; `whole`: also into the quarter that is left to other fetches."""
        if not self.has_room(size, whole=whole):
            return None
        self.used_bytes += size
        self._trim()
        return BufferLease(self, size, is_exact=True)

    def has_room(self, more_bytes: int, *, whole: bool) -> bool:
        """Whether so many bytes fit now; `whole`: also into the quarter that is left to other fetches."""
        room = self.budget_bytes if whole else self.budget_bytes - self.budget_bytes // _LEFT_TO_RECEIVE
        return not self._waiters and self.used_bytes + more_bytes <= room

    def ration(self) -> None:
        """Note that a fetch with the last buffer leaves lanes out: memory is short until a lease leaves room again."""
        self._is_rationed = True
        self.short.set()

    def _fits(self) -> bool:
        least = max(self.buffer_bytes, self.budget_bytes // _LEFT_TO_RECEIVE)
        room = max(self.budget_bytes - self.stuck_bytes, least)
        return self.used_bytes - self.stuck_bytes + self.buffer_bytes <= room

    def _forget(self, waiter: "asyncio.Future[None]") -> None:
        if waiter in self._waiters:
            self._waiters.remove(waiter)
        elif not waiter.cancelled():  # `_wake` counts nothing for a waiter that was cancelled before
            self.give_back(None, self.buffer_bytes)

    def widen(self) -> int:
        """Count what a large buffer needs more than another one; 0 if it would leave less than half of the budget."""
        more = self._large.size - self.buffer_bytes
        if 2 * (self.used_bytes + more) > self.budget_bytes:
            return 0
        self.used_bytes += more
        return more

    def take(self, size: int, reserved_bytes: int) -> tuple[bytearray, int]:
        """Return memory for `size` bytes, and how much of the budget it uses; `reserved_bytes`: what is counted now."""
        has_own = size < _SMALL_BYTES or (self.is_half_used and 2 * size <= self.buffer_bytes)
        if has_own or size > max(reserved_bytes, self.buffer_bytes):
            return bytearray(size), size
        free = self._free if size <= self.buffer_bytes else self._large
        return free.take(), free.size

    async def work_beside(self, work: Callable[[], T], lease: BufferLease | None = None) -> T:
        """Do work that decompresses much in a thread, one batch at a time: the budget does not count that memory.

        The thread keeps its turn and its share of `lease`, whose bytes it reads, to its end, even if the caller stops
        waiting.
        """
        await self.beside.acquire()
        if lease is not None:
            lease.retain()

        def ended() -> None:
            if lease is not None:
                lease.release()
            self.beside.release()

        return await in_thread(work, ended)

    def own(self, size: int, *, stuck: bool) -> BufferLease:
        """Count a batch that has its own memory already; it may exceed the budget, and then fetches wait."""
        self.used_bytes += size
        self.stuck_bytes += size if stuck else 0
        self._trim()
        return BufferLease(self, size, stuck=stuck)

    def _trim(self) -> None:
        """Drop free buffers that would exceed the budget together with the memory in use."""
        room = self.budget_bytes - self.used_bytes
        self._large.fit(room - self._free.bytes)
        self._free.fit(room - self._large.bytes)

    def account(self, more_bytes: int) -> None:
        """Correct what a lease uses, now that its size is known and it has its memory."""
        self.used_bytes += more_bytes
        self._trim()
        if more_bytes < 0:
            self._wake()

    def give_back(self, buffer: bytearray | None, used_bytes: int, *, stuck: bool = False) -> None:
        """Take back a lease's memory."""
        self.used_bytes -= used_bytes
        self.stuck_bytes -= used_bytes if stuck else 0
        if buffer is not None:
            self._keep(buffer)
        self._wake()

    def _keep(self, buffer: bytearray) -> None:
        """Keep a buffer for use again, if all free ones and the memory in use are within the budget then."""
        has_room = self.used_bytes + self._free.bytes + self._large.bytes + len(buffer) <= self.budget_bytes
        for free in (self._free, self._large):
            if len(buffer) == free.size and has_room:
                free.keep(buffer)

    def shed(self) -> None:
        """Drop the buffers that no fetch has needed since the last call."""
        self._free.shed()
        self._large.shed()

    def _wake(self) -> None:
        """Wake as many waiters as fit, in order, and count their bytes here, so that no newcomer takes the room."""
        while self._waiters and self._fits():
            waiter = self._waiters.popleft()
            if not waiter.done():
                self.used_bytes += self.buffer_bytes
                waiter.set_result(None)
