"""Lets calls at one time share what they read."""

import asyncio
from collections.abc import Awaitable, Callable
from copy import copy
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedRead(Generic[T]):
    """A read that many ask for at one time. Each gets what was read after its call: never a read that ran before.

    While a read runs, calls wait for its end, and then share one further read. They share its error too: each would
    wait as long for the same one. If the caller that reads is cancelled, the next one reads.
    """

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read
        self._turn = asyncio.Lock()
        self._begun = self._waiting = 0
        self._found: tuple[int, T] | None = None
        self._failed: tuple[int, Exception] | None = None

    async def get(self) -> T:
        """Read, or wait for a read that begins from now on. Raises what the read raises."""
        before = self._begun
        self._waiting += 1
        try:
            async with self._turn:
                if self._failed is not None and self._failed[0] > before:
                    raise copy(self._failed[1])
                if self._found is not None and self._found[0] > before:
                    return self._found[1]
                return await self._get()
        finally:
            self._waiting -= 1
            if not self._waiting:  # nobody can use it any more, and it may be large
                self._found = self._failed = None

    async def _get(self) -> T:
        self._begun = number = self._begun + 1
        try:
            found = await self._read()
        except Exception as error:
            self._failed = number, error
            raise
        self._found = number, found
        return found
