"""A flow that a command holds while it works."""

import asyncio
from contextlib import AbstractAsyncContextManager

import pytest

from engine.base.errors import FlowHeld, StateTaken
from engine.services import holding
from engine.services.holding import held
from engine.state.state import StateHolder
from tests.unit.engine.config_files import mirror

HOLDER = StateHolder(deployment_id="d", instance_id="i", mirror="m", version="0", where="here")


class Keeper:
    """A state that can be held elsewhere, or be taken while it is held."""

    def __init__(self) -> None:
        self.refusal: Exception | None = None
        self.taken = asyncio.Event()
        self.calls: list[str] = []

    async def open(self) -> None:
        self.calls.append("open")
        if self.refusal is not None:
            raise self.refusal

    async def run(self) -> None:
        await self.taken.wait()
        raise StateTaken("A->B", "another", "topic")

    async def close(self) -> None:
        self.calls.append("close")


@pytest.fixture
def keeper(monkeypatch: pytest.MonkeyPatch) -> Keeper:
    made = Keeper()
    monkeypatch.setattr(holding, "StateService", lambda *_args: made)
    return made


def hold() -> AbstractAsyncContextManager[object]:
    config = mirror()
    return held(config, config.flows[0], HOLDER, lambda _owner: False)


async def test_it_is_given_back_when_the_work_is_done(keeper: Keeper) -> None:
    async with hold() as state:
        assert (state is keeper, keeper.calls) == (True, ["open"])
    assert keeper.calls == ["open", "close"]


async def test_what_ends_the_work_comes_out_as_it_is(keeper: Keeper) -> None:
    with pytest.raises(ValueError, match="work"):
        async with hold():
            raise ValueError("work")
    assert keeper.calls == ["open", "close"]


async def test_a_flow_that_another_mirror_has_is_not_worked_on(keeper: Keeper) -> None:
    keeper.refusal = FlowHeld("A->B", "another", "topic")
    with pytest.raises(FlowHeld):
        async with hold():
            pytest.fail("it is not ours")
    assert keeper.calls == ["open", "close"]


async def test_the_work_ends_when_another_takes_the_flow(keeper: Keeper) -> None:
    async def work() -> None:
        async with hold():
            keeper.taken.set()
            await asyncio.Event().wait()

    with pytest.raises(StateTaken):
        await work()
    assert keeper.calls == ["open", "close"]


async def test_a_cancelled_work_is_cancelled(keeper: Keeper) -> None:
    began = asyncio.Event()

    async def work() -> None:
        async with hold():
            began.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert keeper.calls == ["open", "close"]
