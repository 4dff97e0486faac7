"""Reads a topic partition by partition, so that an unreachable broker hides only the partitions that it leads."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from engine.base.errors import BrokerUnreachable, ConnectionLost, OtherCluster
from engine.base.tasks import run_all

T = TypeVar("T")
_AT_ONCE = 8
"""Partitions read in parallel: an unreachable broker delays few other partitions."""


async def read_those_that_answer(
    read: Callable[[int], Awaitable[list[T]]], partitions: Sequence[int]
) -> tuple[list[T], dict[int, BrokerUnreachable | ConnectionLost]]:
    """Return the records of the partitions that answer, in the given order, and the errors of the others.

    Raises the error of the lowest partition if none answers. Raises OtherCluster.
    """
    found: dict[int, list[T]] = {}
    failed: dict[int, BrokerUnreachable | ConnectionLost] = {}
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def one(partition: int) -> None:
        async with at_once:
            try:
                found[partition] = await read(partition)
            except OtherCluster:
                raise
            except (BrokerUnreachable, ConnectionLost) as failure:
                failed[partition] = failure

    await run_all(*map(one, partitions))
    if failed and not found:
        raise failed[min(failed)]
    return [record for partition in partitions for record in found.get(partition, ())], failed
