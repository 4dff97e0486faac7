"""The metadata actor as the supervisor sees it, around a fake actor: what is owed is written, events are told once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from actors.events import FlowTroubled, unpack
from actors.messages import ConfigRef, MirrorSpec
from actors.ports import CopierUnreachable, Found, Kept
from actors.ray_metadata import EVENTS_KEPT, RayMetadata
from actors.states import Desired
from policies.model import FlowName

A, B = FlowName("a", "x"), FlowName("b", "y")
SPEC = MirrorSpec(config=ConfigRef(path="/c", digest="d"), namespace="n", version="0", deployment_id="x", drain_s=1.0)
STOPPED = Kept(state=Desired.STOPPED)


class FakeMethod:
    """A method of an actor handle."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.remote = method


class FakeActor:
    """Writes and answers at once, but for flows whose target is away."""

    def __init__(self) -> None:
        self.away: set[str] = set()
        self.told: list[str] = []
        self.written: list[tuple[str, Kept]] = []
        self.silent = False
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.keep, self.found, self.close = FakeMethod(self._keep), FakeMethod(self._found), FakeMethod(self._close)

    async def _keep(self, source: str, _target: str, data: bytes) -> None:
        if source in self.away:
            raise CopierUnreachable("metadata", "keep", "no answer in 5 s")
        self.written.append((source, msgspec.msgpack.decode(data, type=Kept)))

    async def _found(self, source: str, _target: str, events: bytes) -> bytes:
        if source == "a":
            self.asked.set()
            await self.may_answer.wait()
        if self.silent:
            raise CopierUnreachable("metadata", "found", "no answer in 5 s")
        self.told += [event.text() for event in unpack(events)]
        return msgspec.msgpack.encode(Found(serial=1))

    async def _close(self) -> None:
        return


@asynccontextmanager
async def running(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[RayMetadata, FakeActor]]:
    """A conversation that goes on; what the fake raises comes as it is."""

    async def as_it_is(_actor: str, _name: str, ref: Any) -> Any:
        return await ref

    monkeypatch.setattr("actors.ray_metadata.bounded", as_it_is)
    monkeypatch.setattr("actors.ray_metadata.ASK_S", 0.01)
    monkeypatch.setattr("actors.ray_metadata.SETTLE_S", 0.05)
    monkeypatch.setattr("actors.ray_metadata.ray.kill", lambda _handle: None)
    metadata, actor = RayMetadata(SPEC, (A, B), {}), FakeActor()
    metadata._actor = actor
    metadata._started_at_s = float("inf")  # never so old that it would be replaced
    task = asyncio.create_task(metadata.run())
    try:
        yield metadata, actor
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(120):
        while not holds():  # noqa: ASYNC110 - a fake's answers are no events
            await asyncio.sleep(0.005)


def event(number: int) -> FlowTroubled:
    return FlowTroubled(flow=A, what=str(number))


async def test_who_waits_is_told_when_all_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch) as (metadata, actor):
        metadata.keep(A, STOPPED)
        metadata.keep(B, STOPPED)
        assert set(metadata.owed) == {A, B}
        await metadata.wait_written(120.0)
        assert metadata.owed == ()
        assert sorted(source for source, _ in actor.written) == ["a", "b"]


async def test_a_target_that_is_away_holds_up_nobody_and_is_owed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch) as (metadata, actor):
        actor.away.add("a")
        metadata.keep(A, STOPPED)
        metadata.keep(B, STOPPED)
        await until(lambda: metadata.owed == (A,))
        assert actor.written == [("b", STOPPED)]
        await metadata.settle()
        assert metadata.owed == (A,), "what could not be written at the end is known to be owed"
        metadata.keep(A, Kept())
        actor.away.clear()
        await metadata.wait_written(120.0)
        assert actor.written[-1] == ("a", Kept()), "what is wanted last is written"


async def test_discovery_goes_on_while_a_write_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch) as (metadata, actor):
        never = asyncio.Event()

        async def hangs(*_words: object) -> None:
            await never.wait()

        actor.keep = FakeMethod(hangs)
        metadata.keep(A, STOPPED)
        metadata.tell(event(1))
        await until(lambda: actor.told == ["1"])
        assert metadata.found(A).serial == 1


async def test_events_that_overflow_while_others_are_told_are_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch) as (metadata, actor):
        actor.may_answer.clear()
        for number in range(EVENTS_KEPT):
            metadata.tell(event(number))
        await until(lambda: not metadata._to_tell[A] and not actor.told)  # the full buffer is on its way
        for number in range(EVENTS_KEPT, 2 * EVENTS_KEPT):
            metadata.tell(event(number))
        actor.may_answer.set()
        await until(lambda: len(actor.told) >= 2 * EVENTS_KEPT)
        assert actor.told == [str(number) for number in range(2 * EVENTS_KEPT)]


async def test_events_that_were_not_heard_are_told_again_the_newest_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch) as (metadata, actor):
        actor.silent = True
        for number in range(EVENTS_KEPT):
            metadata.tell(event(number))
        for _ in range(2):
            actor.asked.clear()
            await actor.asked.wait()  # the second time: what the first was asked with is back
        metadata.tell(event(EVENTS_KEPT))
        actor.silent = False
        await until(lambda: len(actor.told) >= EVENTS_KEPT)
        assert actor.told == [str(number) for number in range(1, EVENTS_KEPT + 1)]
