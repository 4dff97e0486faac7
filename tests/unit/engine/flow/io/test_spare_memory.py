"""Memory of a burst: buffers and pages are returned, again and again, until cancelled."""

import asyncio

import pytest

from engine.flow.io import spare_memory
from engine.flow.io.buffers import BufferPool
from engine.flow.io.spare_memory import return_free_pages, return_spare_memory
from tests.fakes.brokers import turns

BUFFER = 300 * 1024


async def test_spare_buffers_are_shed_before_pages_are_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spare_memory, "EVERY_S", 0.001)
    pool = BufferPool(2 * BUFFER, BUFFER)
    lease = await pool.lease()
    lease.room(BUFFER)
    lease.release()
    kept: list[int] = []
    twice = asyncio.Event()
    loop = asyncio.get_running_loop()

    def look() -> None:
        kept.append(pool.free_buffers)
        if len(kept) == 2:
            loop.call_soon_threadsafe(twice.set)

    task = asyncio.create_task(return_spare_memory(pool, look))
    await twice.wait()
    task.cancel()
    await turns()
    assert task.cancelled()
    assert kept[:2] == [1, 0]


def test_the_allocator_of_this_machine_takes_the_call() -> None:
    return_free_pages()
