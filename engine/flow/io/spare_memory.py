"""Returns the memory of a burst to the machine, once it has been unused for 60 s.

Receive buffers are kept for reuse, and glibc keeps most of what is freed. So without this, a copier would stay as large
as its longest backlog made it.
"""

import asyncio
import ctypes
from collections.abc import Callable

from engine.base.clock import pause
from engine.flow.io.buffers import BufferPool

EVERY_S = 60.0


def return_free_pages() -> None:
    """Give the allocator's free pages back to the machine, which takes milliseconds (glibc's `malloc_trim`).

    Other C libraries have no such call, and return more by themselves.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


async def return_spare_memory(pool: BufferPool, return_pages: Callable[[], None] = return_free_pages) -> None:
    """Return unneeded buffers and free pages every 60 s, until cancelled."""
    while True:
        await pause(EVERY_S)
        pool.shed()
        await asyncio.to_thread(return_pages)
