"""The lease guard: closed by call or by time, and the code that runs behind it."""

import asyncio

import pytest

from engine.base.clock import now_s
from engine.flow.context.lease_guard import LeaseGuard
from tests.fakes.brokers import turns


class Told:
    """A gate that counts how often it opened."""

    def __init__(self) -> None:
        self.opened = 0
        self.lease_guard = LeaseGuard(self._open)

    def _open(self) -> None:
        self.opened += 1


def test_a_gate_is_shut_and_opened_by_word() -> None:
    told = Told()
    assert told.lease_guard.is_open
    told.lease_guard.shut()
    told.lease_guard.shut()
    assert (told.lease_guard.is_open, told.lease_guard.times_shut, told.opened) == (False, 1, 0)
    told.lease_guard.open()
    assert (told.lease_guard.is_open, told.opened) == (True, 1)


def test_a_gate_shuts_by_time_and_opens_with_a_new_lease() -> None:
    told = Told()
    told.lease_guard.lease_until_s = now_s() - 1
    assert not told.lease_guard.is_open
    told.lease_guard.lease_until_s = now_s() + 3600
    assert (told.lease_guard.is_open, told.opened) == (True, 0)
    told.lease_guard.notice()  # whoever was turned away meanwhile must be told, although nobody noticed that
    assert told.opened == 1
    told.lease_guard.notice()
    assert told.opened == 1


def test_a_lease_does_not_open_what_was_shut_by_word_nor_the_other_way_round() -> None:
    told = Told()
    told.lease_guard.shut()
    told.lease_guard.lease_until_s = now_s() + 3600
    told.lease_guard.notice()
    assert not told.lease_guard.is_open
    told.lease_guard.lease_until_s = 0.0
    told.lease_guard.open()
    assert (told.lease_guard.is_open, told.opened) == (False, 0)


async def test_what_runs_behind_a_gate_that_shuts_is_begun_anew_when_it_opens() -> None:
    told = Told()
    begun: list[asyncio.Event] = []

    async def work() -> int:
        begun.append(asyncio.Event())
        await begun[-1].wait()
        return len(begun)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(told.lease_guard.while_open(work))
        await turns()
        told.lease_guard.shut()
        await turns()
        assert (len(begun), task.done()) == (1, False)
        told.lease_guard.open()
        await turns()
        begun[-1].set()
        assert await task == 2


async def test_nothing_begins_behind_a_gate_that_time_has_shut() -> None:
    told = Told()
    told.lease_guard.lease_until_s = 0.0
    begun: list[int] = []

    async def work() -> None:
        begun.append(1)

    async with asyncio.TaskGroup() as group:
        group.create_task(told.lease_guard.while_open(work))
        await turns()
        assert begun == []
        told.lease_guard.lease_until_s = now_s() + 3600
        told.lease_guard.notice()


async def test_a_time_out_of_the_work_itself_is_told() -> None:
    async def work() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        await Told().lease_guard.while_open(work)
