"""Structured concurrency, in one place: several coroutines, or a task, fail with the first plain error of theirs."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def run_all(*coroutines: Coroutine[Any, Any, object]) -> None:
    """Run all to their end; when one fails the others are cancelled and its error is raised as it is.

    A TaskGroup alone would raise an ExceptionGroup, which `except ConnectionLost` does not see.
    """
    try:
        async with asyncio.TaskGroup() as group:
            for coroutine in coroutines:
                group.create_task(coroutine)
    except BaseExceptionGroup as failures:
        raise first_cause(failures) from None


async def in_thread(work: Callable[[], T], ended: Callable[[], None]) -> T:
    """Run `work` in a thread; `ended` is called on the loop when the thread has ended, with an error too.

    A thread cannot be cancelled: it goes on when this wait is, so what it reads may be given back in `ended` only.
    """
    running = asyncio.get_running_loop().run_in_executor(None, work)
    running.add_done_callback(lambda _: ended())
    return await asyncio.shield(running)


async def join(task: asyncio.Task[None]) -> None:
    """Wait for the end of a task that goes on when this wait is cancelled; raises what ended it, out of its groups."""
    try:
        await asyncio.shield(task)
    except BaseExceptionGroup as failures:
        raise first_cause(failures) from failures


def first_cause(error: BaseException) -> BaseException:
    """Give the first error that is not a group: the one that brought the others down."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def run_until(closed: asyncio.Event, coroutine: Coroutine[Any, Any, None]) -> None:
    """Run something that does not end by itself, until the event is set."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(coroutine)
        await closed.wait()
        task.cancel()
