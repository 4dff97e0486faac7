"""The gate: shut by word or by time, and what runs behind it."""

import asyncio

import pytest

from engine.clock import now_s
from engine.flow.gate import Gate
from tests.fakes.brokers import turns


class Told:
    """A gate that counts how often it opened."""

    def __init__(self) -> None:
        self.opened = 0
        self.gate = Gate(self._open)

    def _open(self) -> None:
        self.opened += 1


def test_a_gate_is_shut_and_opened_by_word() -> None:
    told = Told()
    assert told.gate.is_open
    told.gate.shut()
    told.gate.shut()
    assert (told.gate.is_open, told.gate.times_shut, told.opened) == (False, 1, 0)
    told.gate.open()
    assert (told.gate.is_open, told.opened) == (True, 1)


def test_a_gate_shuts_by_time_and_opens_with_a_new_lease() -> None:
    told = Told()
    told.gate.lease_until_s = now_s() - 1
    assert not told.gate.is_open
    told.gate.lease_until_s = now_s() + 3600
    assert (told.gate.is_open, told.opened) == (True, 0)
    told.gate.notice()  # whoever was turned away meanwhile must be told, although nobody noticed that it was shut
    assert told.opened == 1
    told.gate.notice()
    assert told.opened == 1


def test_a_lease_does_not_open_what_was_shut_by_word_nor_the_other_way_round() -> None:
    told = Told()
    told.gate.shut()
    told.gate.lease_until_s = now_s() + 3600
    told.gate.notice()
    assert not told.gate.is_open
    told.gate.lease_until_s = 0.0
    told.gate.open()
    assert (told.gate.is_open, told.opened) == (False, 0)


async def test_what_runs_behind_a_gate_that_shuts_is_begun_anew_when_it_opens() -> None:
    told = Told()
    begun: list[asyncio.Event] = []

    async def work() -> int:
        begun.append(asyncio.Event())
        await begun[-1].wait()
        return len(begun)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(told.gate.while_open(work))
        await turns()
        told.gate.shut()
        await turns()
        assert (len(begun), task.done()) == (1, False)
        told.gate.open()
        await turns()
        begun[-1].set()
        assert await task == 2


async def test_nothing_begins_behind_a_gate_that_time_has_shut() -> None:
    told = Told()
    told.gate.lease_until_s = 0.0
    begun: list[int] = []

    async def work() -> None:
        begun.append(1)

    async with asyncio.TaskGroup() as group:
        group.create_task(told.gate.while_open(work))
        await turns()
        assert begun == []
        told.gate.lease_until_s = now_s() + 3600
        told.gate.notice()


async def test_a_time_out_of_the_work_itself_is_told() -> None:
    async def work() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        await Told().gate.while_open(work)
