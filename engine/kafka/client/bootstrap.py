"""Asks many addresses for one answer or for all; a silent broker delays the others only by a bounded time."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

from engine.base.errors import BrokerRefuses, BrokerUnreachable, ConnectionLost, KafkaRefusal, OtherCluster
from engine.base.tasks import first_cause

A = TypeVar("A")
T = TypeVar("T")
_Reason = BrokerUnreachable | ConnectionLost | KafkaRefusal


async def first_answer(addresses: Sequence[A], ask: Callable[[A], Awaitable[T]], *, head_start_s: float) -> T:
    """Ask the addresses until one answers: the next one after a failure, or `head_start_s` seconds after the last.

    Raises BrokerUnreachable with all reasons, in the order in which they came, if none answers. Raises BrokerRefuses if
    one of them rejected the handshake, OtherCluster if one belongs to another cluster, KafkaRefusal if one refused the
    request.
    """
    found: list[T] = []
    reasons: list[_Reason] = []
    moved = asyncio.Event()

    async def one(address: A) -> None:
        try:
            found.append(await ask(address))
        except (BrokerUnreachable, ConnectionLost, KafkaRefusal) as error:
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
    raise _one_of(reasons)


def _one_of(reasons: Sequence[_Reason]) -> BrokerUnreachable | KafkaRefusal:
    """Return one error with all reasons why no address answers."""
    for reason in reasons:
        if isinstance(reason, OtherCluster):
            return reason.again()
    for reason in reasons:
        if isinstance(reason, KafkaRefusal):
            return reason
    kind = BrokerRefuses if any(isinstance(one, BrokerRefuses) for one in reasons) else BrokerUnreachable
    return kind("any address", "; ".join(_once(reasons)))


async def all_answers(addresses: Iterable[A], ask: Callable[[A], Awaitable[T]], *, grace_s: float | None) -> dict[A, T]:
    """Ask all addresses at once; return their answers, without the failures.

    Give up addresses that answer more than `grace_s` seconds after the first answer; None: wait for all of them.
    Another failure than an address that does not answer is raised as it is.
    """
    found: dict[A, T] = {}

    async def one(address: A) -> None:
        with suppress(BrokerUnreachable, ConnectionLost):
            found[address] = await ask(address)

    try:
        async with asyncio.TaskGroup() as group:
            waiting = {group.create_task(one(address)) for address in addresses}
            while waiting and not found:
                _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if waiting:
                _, waiting = await asyncio.wait(waiting, timeout=grace_s)
            for task in waiting:
                task.cancel()
    except BaseExceptionGroup as failures:
        raise first_cause(failures) from None
    return found


def _once(reasons: Sequence[_Reason]) -> Iterator[str]:
    """Yield each reason once, with all addresses that it applies to."""
    addresses: dict[str, list[str]] = {}
    for error in reasons:
        if isinstance(error, BrokerUnreachable) and not isinstance(error, OtherCluster):
            addresses.setdefault(str(error).removeprefix(error.address), []).append(error.address)
        else:
            addresses.setdefault(str(error), [])
    for text, names in addresses.items():
        yield f"{', '.join(names)}{text}"
