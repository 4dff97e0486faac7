"""Structured concurrency, in one place: run several coroutines and fail with the first plain error of theirs."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def run_all(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Run all to their end; when one fails the others are cancelled and its error is raised as it is.

    A TaskGroup alone would raise an ExceptionGroup, which `except ConnectionLost` does not see.
    """
    try:
        async with asyncio.TaskGroup() as group:
            for coroutine in coroutines:
                group.create_task(coroutine)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def run_until(closed: asyncio.Event, coroutine: Coroutine[Any, Any, None]) -> None:
    """Run something that does not end by itself, until the event is set."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(coroutine)
        await closed.wait()
        task.cancel()
