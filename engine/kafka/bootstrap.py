"""One answer out of many addresses: a broker that keeps silent delays the next one by a head start only."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from engine.errors import BrokerUnreachable, ConnectionLost

A = TypeVar("A")
T = TypeVar("T")


async def first_answer(addresses: Sequence[A], ask: Callable[[A], Awaitable[T]], *, head_start_s: float) -> T:
    """Ask one address after the other until one answers: the next when the last has failed, or after a head start.

    Raises BrokerUnreachable, with every reason in the order in which they came, when none answers.
    """

    async def one(address: A) -> T:
        return await ask(address)

    left, asked, reasons = deque(addresses), set[asyncio.Task[T]](), list[str]()
    try:
        while left or asked:
            if left:
                asked.add(asyncio.create_task(one(left.popleft())))
            done, asked = await asyncio.wait(
                asked, timeout=head_start_s if left else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                asked.add(task)  # until its outcome is taken
            for task in done:
                try:
                    answer = task.result()
                except (BrokerUnreachable, ConnectionLost) as error:
                    reasons.append(str(error))
                    asked.discard(task)
                else:
                    return answer
    finally:
        for task in asked:
            task.cancel()
        if asked:
            await asyncio.wait(asked)
    raise BrokerUnreachable("any address", "; ".join(reasons))
