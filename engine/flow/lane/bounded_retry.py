"""Repeats requests while brokers are unreachable, mostly for a bounded time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from engine.base.clock import backoff_s, pause
from engine.base.errors import BrokerUnreachable, ConnectionLost

T = TypeVar("T")
_UNREACHABLE = (ConnectionLost, BrokerUnreachable)


async def until_answered(ask: Callable[[], Awaitable[T]], failed: Callable[[str], None] = lambda _why: None) -> T:
    """Ask until there is an answer, without a time limit; `failed` gets the reason of each failure."""
    attempt = 0
    while True:
        try:
            return await ask()
        except _UNREACHABLE as error:
            failed(str(error))
            attempt += 1
            await pause(backoff_s(attempt))


class BoundedRetry:
    """Repeats requests to one place (`where`, named in the error) for `patience_s` seconds at most."""

    def __init__(self, where: str, patience_s: float, why: Callable[[], str]) -> None:
        self._where = where
        self._patience_s = patience_s
        self._why = why
        self._last = ""

    async def persist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until there is an answer. Raises BrokerUnreachable after `patience_s` seconds."""
        return await self.bounded(lambda: self.retrying(ask))

    async def bounded(self, do: Callable[[], Awaitable[T]]) -> T:
        """Do it once. Raises BrokerUnreachable if it takes more than `patience_s` seconds."""
        try:
            async with asyncio.timeout(self._patience_s) as deadline:
                return await do()
        except TimeoutError:
            if not deadline.expired():
                raise
            why = self._why() or self._last or "no answer"
            raise BrokerUnreachable(self._where, f"not done within {self._patience_s:g} s: {why}") from None

    async def retrying(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until there is an answer, without a time limit."""
        return await until_answered(ask, self._failed)

    def _failed(self, why: str) -> None:
        self._last = why
