"""What a burst took of memory goes back to the machine when a minute has not needed it.

Receive buffers are kept for use again, and glibc keeps most of what is freed; so a copier would stay for good as large
as its longest backlog made it.
"""

import asyncio
import ctypes
from collections.abc import Callable

from engine.clock import pause
from engine.flow.buffers import BufferPool

EVERY_S = 60.0


def return_free_pages() -> None:
    """Give the allocator's free pages back to the machine, a matter of milliseconds (glibc's `malloc_trim`).

    Other C libraries have no such call, and return more by themselves.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


async def return_spare_memory(pool: BufferPool, return_pages: Callable[[], None] = return_free_pages) -> None:
    """Do so all the time, until cancelled."""
    while True:
        await pause(EVERY_S)
        pool.shed()
        await asyncio.to_thread(return_pages)
