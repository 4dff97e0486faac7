"""Gives each user a share of what the server has, so that one user cannot take it from the others.

shares = UserShares()
async with shares.large("eve"):      # raises HttpRefusal (429) if eve has too many waiting
...
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from actors.rest.exchange import HttpRefusal

MOST_STREAMS: Final = 8
"""Live streams of one user, of the 32 of a server with users."""
MOST_LARGE: Final = 2
"""Large answers of one user that are made at one time."""
MOST_WAITING: Final = 8
"""Requests of one user that wait for a large answer, besides."""


class UserShares:
    """What each user has now; a user who has nothing takes no memory."""

    def __init__(self) -> None:
        self._streams: Counter[str] = Counter()
        self._large: Counter[str] = Counter()
        self._turns: dict[str, asyncio.Semaphore] = {}

    @contextmanager
    def stream(self, user: str, most: int = MOST_STREAMS) -> Iterator[None]:
        """Hold a stream of a user. Raises HttpRefusal (429)."""
        if self._streams[user] >= most:
            raise HttpRefusal(429, f"User {user} has {most} streams open; close one", (("Retry-After", "5"),))
        with _counted(self._streams, user):
            yield

    @asynccontextmanager
    async def large(self, user: str) -> AsyncIterator[None]:
        """Wait for the turn of a user, and hold it. Raises HttpRefusal (429)."""
        if self._large[user] >= MOST_LARGE + MOST_WAITING:
            raise HttpRefusal(
                429, f"User {user} waits for {MOST_WAITING} large answers already", (("Retry-After", "1"),)
            )
        turns = self._turns.setdefault(user, asyncio.Semaphore(MOST_LARGE))
        with _counted(self._large, user):
            try:
                async with turns:
                    yield
            finally:
                if self._large[user] == 1:
                    self._turns.pop(user, None)


@contextmanager
def _counted(counts: Counter[str], user: str) -> Iterator[None]:
    counts[user] += 1
    try:
        yield
    finally:
        counts[user] -= 1
        if not counts[user]:
            del counts[user]
