"""Runs something in parallel with a test."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any


@asynccontextmanager
async def beside(goes_on: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run it until the block ends; raises what ended it before."""
    task = asyncio.create_task(goes_on)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
