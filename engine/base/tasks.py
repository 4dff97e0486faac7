"""Runs coroutines and tasks together; a failure raises the first error that is not an exception group."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def run_all(*coroutines: Coroutine[Any, Any, object]) -> None:
    """Run all to their end; if one fails, cancel the others and raise its error as it is.

    A TaskGroup alone would raise an ExceptionGroup, which `except ConnectionLost` does not see.
    """
    try:
        async with asyncio.TaskGroup() as group:
            for coroutine in coroutines:
                group.create_task(coroutine)
    except BaseExceptionGroup as failures:
        raise first_cause(failures) from None


async def in_thread(work: Callable[[], T], ended: Callable[[], None]) -> T:
    """Run `work` in a thread; `ended` is called on the loop when the thread has ended, even after an error.

    A thread cannot be cancelled: it continues if this wait is cancelled. So release what it reads in `ended` only.
    """
    running = asyncio.get_running_loop().run_in_executor(None, work)
    running.add_done_callback(lambda _: ended())
    return await asyncio.shield(running)


async def join(task: asyncio.Task[None]) -> None:
    """Wait for a task, which continues if this wait is cancelled; raise its error, taken out of exception groups."""
    try:
        await asyncio.shield(task)
    except BaseExceptionGroup as failures:
        raise first_cause(failures) from failures


def first_cause(error: BaseException) -> BaseException:
    """Return the first error that is not an exception group: the one that made the others fail."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def run_until(closed: asyncio.Event, coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that does not end by itself until the event is set."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(coroutine)
        await closed.wait()
        task.cancel()
