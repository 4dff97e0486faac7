"""Waits for a broker to report a change that it has accepted: its image of the cluster follows the log."""

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from engine.base.clock import now_s, pause

T = TypeVar("T")
DEADLINE_S = 180.0
_POLL_S = 0.05


async def until_equal(read: Callable[[], Awaitable[T]], wanted: T) -> None:
    """Read until what is read is as wanted; fails with the difference."""
    give_up_at_s = now_s() + DEADLINE_S
    while (found := await read()) != wanted and now_s() < give_up_at_s:
        await pause(_POLL_S)
    assert found == wanted


async def until(seen: Callable[[], bool], what: str, within_s: float = DEADLINE_S) -> None:
    """Look until something is so; fails with what it was to be."""
    give_up_at_s = now_s() + within_s
    while not seen():
        assert now_s() < give_up_at_s, f"not within {within_s:.0f} s: {what}"
        await pause(_POLL_S)


def wait_until(seen: Callable[[], bool], what: str, within_s: float = DEADLINE_S) -> None:
    """Look until something is so, in a thread without a loop; fails with what it was to be."""
    give_up_at_s = now_s() + within_s
    while not seen():
        assert now_s() < give_up_at_s, f"not within {within_s:.0f} s: {what}"
        time.sleep(_POLL_S)
