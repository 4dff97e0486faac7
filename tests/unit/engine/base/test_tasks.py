"""The error that ended a task reaches those who wait for the task."""

import asyncio

import pytest

from engine.base.tasks import first_cause, join, run_all


async def fail(error: Exception) -> None:
    raise error


async def nested(error: Exception) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(fail(error))


def test_the_first_cause_is_inside_the_groups() -> None:
    inner = ValueError("x")
    assert first_cause(ExceptionGroup("o", [ExceptionGroup("i", [inner])])) is inner
    assert first_cause(inner) is inner


async def test_who_joins_a_task_gets_the_plain_error_as_often_as_asked() -> None:
    async with asyncio.TaskGroup() as group:
        well = group.create_task(asyncio.sleep(0))
        await join(well)
    failed = asyncio.get_running_loop().create_task(nested(ValueError("x")))
    for _ in range(2):
        with pytest.raises(ValueError, match="x"):
            await join(failed)


async def test_a_wait_that_is_cancelled_leaves_the_task_alone() -> None:
    go_on = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(nested_wait(go_on))
        waiter = group.create_task(join(task))
        await asyncio.sleep(0)
        waiter.cancel()
        await asyncio.wait([waiter])
        assert not task.done()
        go_on.set()
    assert task.done()


async def nested_wait(event: asyncio.Event) -> None:
    await event.wait()


async def test_coroutines_run_together_fail_with_the_plain_error_also_of_a_group_within() -> None:
    with pytest.raises(ValueError, match="x"):
        await run_all(nested(ValueError("x")), asyncio.sleep(60))
