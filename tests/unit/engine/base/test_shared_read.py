"""Calls at one time share a read, but never one that ran before they came."""

import asyncio

import pytest

from engine.base.errors import ConnectionLost
from engine.base.shared_read import SharedRead
from tests.fakes.brokers import turns


class Log:
    """A read that ends when told; each returns its number."""

    def __init__(self) -> None:
        self.began = 0
        self.may_end = asyncio.Event()
        self.error: Exception | None = None

    async def read(self) -> int:
        self.began += 1
        number = self.began
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        return number


async def test_calls_during_a_read_share_the_next_one() -> None:
    log = Log()
    shared = SharedRead(log.read)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(shared.get())
        await turns(3)
        later = [group.create_task(shared.get()) for _ in range(20)]
        await turns(3)
        assert log.began == 1
        log.may_end.set()
    assert first.result() == 1
    assert [one.result() for one in later] == [2] * 20


async def test_a_read_that_has_ended_serves_no_later_call() -> None:
    log = Log()
    log.may_end.set()
    shared = SharedRead(log.read)
    assert [await shared.get(), await shared.get()] == [1, 2]


async def test_those_who_share_a_read_share_its_error_and_the_next_call_reads() -> None:
    log = Log()
    log.error = ConnectionLost("a:1")
    shared = SharedRead(log.read)
    calls = [asyncio.ensure_future(shared.get()) for _ in range(5)]
    await turns(3)
    log.may_end.set()
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert [str(one) for one in found] == [str(log.error)] * 5
    assert log.began == 2, "one for the first, and one for all who came while it ran"
    log.error = None
    assert await shared.get() == 3


async def test_if_the_reading_caller_is_cancelled_the_next_one_reads() -> None:
    log = Log()
    shared = SharedRead(log.read)
    reading, waiting = asyncio.ensure_future(shared.get()), asyncio.ensure_future(shared.get())
    await turns(3)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    log.may_end.set()
    assert await waiting == 2
