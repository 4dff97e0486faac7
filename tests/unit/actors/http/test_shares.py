"""Shares of users: one user cannot take all streams, nor make many large answers at once."""

import asyncio
from contextlib import AsyncExitStack, ExitStack

import pytest

from actors.http.shares import MOST_LARGE, MOST_STREAMS, MOST_WAITING, UserShares
from actors.rest.exchange import HttpRefusal


def test_one_user_has_so_many_streams_and_others_have_theirs() -> None:
    shares = UserShares()
    with ExitStack() as stack:
        for _ in range(MOST_STREAMS):
            stack.enter_context(shares.stream("eve"))
        with pytest.raises(HttpRefusal) as refused, shares.stream("eve"):
            pass
        assert refused.value.status == 429
        stack.enter_context(shares.stream("bob"))
    with shares.stream("eve"):
        pass


async def test_one_user_makes_so_many_large_answers_at_one_time() -> None:
    shares, made, most, release = UserShares(), 0, 0, asyncio.Event()

    async def answer(user: str) -> None:
        nonlocal made, most
        async with shares.large(user):
            made += 1
            most = max(most, made)
            await release.wait()
            made -= 1

    async with asyncio.TaskGroup() as group:
        for _ in range(MOST_LARGE + MOST_WAITING):
            group.create_task(answer("eve"))
        await asyncio.sleep(1)
        assert made == MOST_LARGE
        with pytest.raises(HttpRefusal):
            await answer("eve")
        group.create_task(answer("bob"))
        await asyncio.sleep(1)
        assert made == MOST_LARGE + 1
        release.set()
    assert most == MOST_LARGE + 1
    assert made == 0


async def test_who_gives_up_waiting_leaves_its_place() -> None:
    shares = UserShares()
    async with AsyncExitStack() as stack:
        for _ in range(MOST_LARGE):
            await stack.enter_async_context(shares.large("eve"))
        for _ in range(MOST_WAITING + 1):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1), shares.large("eve"):
                    raise AssertionError("it has a turn")
    async with shares.large("eve"):
        pass
