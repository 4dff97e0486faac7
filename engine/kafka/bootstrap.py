"""One answer out of many addresses: a broker that keeps silent delays the next one by a head start only."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

from engine.errors import BrokerUnreachable, ConnectionLost, OtherCluster

A = TypeVar("A")
T = TypeVar("T")


async def first_answer(addresses: Sequence[A], ask: Callable[[A], Awaitable[T]], *, head_start_s: float) -> T:
    """Ask one address after the other until one answers: the next when one has failed, or after a head start.

    Raises BrokerUnreachable, with every reason in the order in which they came, when none answers.
    """
    found: list[T] = []
    reasons: list[BrokerUnreachable | ConnectionLost] = []
    moved = asyncio.Event()

    async def one(address: A) -> None:
        try:
            found.append(await ask(address))
        except (BrokerUnreachable, ConnectionLost) as error:
            reasons.append(error)
        moved.set()

    async with asyncio.TaskGroup() as group:
        asked: list[asyncio.Task[None]] = []
        for address in addresses:
            moved.clear()
            asked.append(group.create_task(one(address)))
            with suppress(TimeoutError):
                async with asyncio.timeout(head_start_s):
                    await moved.wait()
            if found:
                break
        while not found and len(reasons) < len(asked):
            moved.clear()
            await moved.wait()
        for task in asked:
            task.cancel()
    if found:
        return found[0]
    raise BrokerUnreachable("any address", "; ".join(_once(reasons)))


def _once(reasons: Sequence[BrokerUnreachable | ConnectionLost]) -> Iterator[str]:
    """Say each reason once, with all the addresses that have it."""
    addresses: dict[str, list[str]] = {}
    for error in reasons:
        if isinstance(error, BrokerUnreachable) and not isinstance(error, OtherCluster):
            addresses.setdefault(str(error).removeprefix(error.address), []).append(error.address)
        else:
            addresses.setdefault(str(error), [])
    for text, names in addresses.items():
        yield f"{', '.join(names)}{text}"
