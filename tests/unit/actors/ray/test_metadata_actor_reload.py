"""The metadata actor takes another configuration over: unchanged flows keep their keepers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest

from actors.config.effective import BESIDE
from actors.control.ports import DiscoveryAnswer
from actors.model.events import pack
from actors.ray.metadata_actor import MetadataActor
from actors.ray.watch import Watch
from engine.core.events.events import AnyEvent
from policies.model import FlowName
from tests.unit.actors.fakes import FLOW, lanes
from tests.unit.actors.ray.test_metadata_actor import SPEC, FakeEvents, FakeKeeper, FakeState, Seen

OTHER = FlowName("B", "C")


class FakeBeats:
    """Heartbeats that note whether they beat."""

    def __init__(self) -> None:
        self.beating = 0
        self.ended = 0

    def make(self, _tell: Callable[[AnyEvent], None]) -> "FakeBeats":
        return self

    async def run(self) -> None:
        self.beating += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.ended += 1


class Flow:
    """One flow of a configuration: its watch, and what became of its keepers."""

    def __init__(self, name: FlowName, made_of: str, beside: str = "") -> None:
        self.service, self.beats = FakeKeeper([Seen(lanes("t", 1))]), FakeBeats()
        self.watch = Watch(
            flow=name,
            service=self.service,
            state=FakeState,
            events=FakeEvents(),
            every_s=0.01,
            beats=self.beats.make,
            settings={"topics": made_of, BESIDE: beside},
        )


@pytest.fixture(autouse=True)
def empty_topic() -> None:
    FakeState.topic.clear()
    FakeState.fail.clear()
    FakeState.closed.clear()


@asynccontextmanager
async def actor(*flows: Flow) -> AsyncIterator[tuple[MetadataActor, list[Flow]]]:
    """An actor of these flows; what a reload is to bring is put into the list."""
    present = list(flows)
    shell = MetadataActor(SPEC, make=lambda _spec: tuple(flow.watch for flow in present))
    try:
        yield shell, present
    finally:
        shell._task.cancel()
        await asyncio.wait([shell._task])


async def found(shell: MetadataActor, flow: FlowName, until: Callable[[DiscoveryAnswer], bool]) -> DiscoveryAnswer:
    async with asyncio.timeout(120):
        while True:
            _, (data,) = await shell.found([(*flow, pack(()))])
            answer = msgspec.msgpack.decode(data, type=DiscoveryAnswer)
            if until(answer):
                return answer
            await asyncio.sleep(0.005)


async def test_a_flow_of_the_same_settings_is_not_touched() -> None:
    one, other = Flow(FLOW, "a"), Flow(OTHER, "b")
    async with actor(one, other) as (shell, present):
        before = await found(shell, FLOW, lambda answer: answer.serial > 0)
        present[:] = [Flow(FLOW, "a"), Flow(OTHER, "changed")]
        assert await shell.reload(SPEC) == [("A", "B", 0), ("B", "C", 1)]
        after = await found(shell, FLOW, lambda answer: answer.serial > before.serial)
        assert after.lanes
        await found(shell, OTHER, lambda answer: answer.serial > 0)
        assert (one.service.opened, one.service.closed, one.beats.ended) == (1, 0, 0)
        assert (other.service.closed, other.beats.ended, present[1].service.opened) == (1, 1, 1)
        assert present[0].service.opened == 0
        assert FakeState.closed == [False], "a flow that changes stays ours"


async def test_said_again_it_does_nothing() -> None:
    async with actor(Flow(FLOW, "a")) as (shell, present):
        present[:] = [Flow(FLOW, "a"), Flow(OTHER, "b")]
        assert await shell.reload(SPEC) == [("A", "B", 0), ("B", "C", 1)]
        added = present[1]
        await found(shell, OTHER, lambda answer: answer.serial > 0)
        present[:] = [Flow(FLOW, "a"), Flow(OTHER, "b")]
        assert await shell.reload(SPEC) == [("A", "B", 0), ("B", "C", 1)]
        assert added.service.closed == 0


async def test_a_flow_is_given_back_when_it_is_said() -> None:
    one, other = Flow(FLOW, "a"), Flow(OTHER, "b")
    async with actor(one, other) as (shell, present):
        await found(shell, OTHER, lambda answer: answer.kept is not None)
        present[:] = [one]
        await shell.reload(SPEC)
        assert other.service.closed == 0, "its copiers may still be draining"
        await shell.give_back(*OTHER)
        await shell.give_back(*OTHER)
        async with asyncio.timeout(120):
            while not (other.service.closed and other.beats.ended):  # noqa: ASYNC110 - a cancelled task is no event
                await asyncio.sleep(0.005)
        assert True in FakeState.closed, "others may have it at once"
        assert one.service.closed == 0
        with pytest.raises(KeyError):
            await shell.found([(*OTHER, pack(()))])


async def test_heartbeats_of_other_pairs_come_and_go_alone() -> None:
    one = Flow(FLOW, "a", beside="B->A")
    async with actor(one) as (shell, present):
        await found(shell, FLOW, lambda answer: answer.serial > 0)
        present[:] = [Flow(FLOW, "a", beside="")]
        assert await shell.reload(SPEC) == [("A", "B", 0)]
        async with asyncio.timeout(120):
            while not present[0].beats.beating:  # noqa: ASYNC110 - a task that begins is no event
                await asyncio.sleep(0.005)
        assert (one.beats.ended, one.service.closed) == (1, 0)


async def test_an_actor_whose_rounds_have_ended_says_why() -> None:
    broken = Flow(FLOW, "a")
    broken.service.script = [KeyError("bug")]
    async with actor(broken) as (shell, _):
        async with asyncio.timeout(120):
            await asyncio.wait([shell._task])
        with pytest.raises(KeyError, match="bug"):
            await shell.reload(SPEC)
