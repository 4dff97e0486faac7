"""Stores queued rows until it is cancelled: tries a store that fails again, and reports the failure once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn, TypeVar

from engine.base.clock import backoff_s, pause

_COLLECT_S: Final = 0.5
"""Time to collect rows, so that changes of one moment are stored together."""
_FIRST_S: Final = 1.0
_MOST_S: Final = 60.0
F = TypeVar("F", bound=Exception)


async def keep_storing(
    some: asyncio.Event, store: Callable[[], Awaitable[None]], failed: type[F], report: Callable[[F], None]
) -> NoReturn:
    """Call `store` whenever `some` is set, which `store` clears; after each error `failed` wait longer, up to a minute.

    `report` gets the first of failures in a row. Any other error is raised.
    """
    failures = 0
    while True:
        await some.wait()
        await pause(_COLLECT_S if not failures else backoff_s(failures, _FIRST_S, _MOST_S))
        try:
            await store()
            failures = 0
        except failed as failure:
            failures += 1
            if failures == 1:
                report(failure)
