"""The supervisor's port to a fake metadata actor: pending state is written, events are sent once."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from actors.control.ports import ActorUnreachable, DiscoveryAnswer, RememberedFlow
from actors.model.events import FlowTroubled, unpack
from actors.model.messages import ConfigRef, MirrorSpec
from actors.model.states import Desired
from actors.ray.ray_metadata import EVENTS_KEPT, MetadataHandle, RayMetadata
from policies.model import FlowName

A, B = FlowName("a", "x"), FlowName("b", "y")
SPEC = MirrorSpec(config=ConfigRef(path="/c", digest="d"), namespace="n", version="0", deployment_id="x", drain_s=1.0)
STOPPED = RememberedFlow(state=Desired.STOPPED)


class FakeMethod:
    """A method of an actor handle."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.remote = method


class FakeActor:
    """Writes and answers at once, but for flows whose target is away."""

    def __init__(self) -> None:
        self.away: set[str] = set()
        self.told: list[str] = []
        self.written: list[tuple[str, RememberedFlow]] = []
        self.silent = False
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.kept: RememberedFlow | None = None
        self.delays, self.hurried = asyncio.Event(), asyncio.Event()
        self.store_state, self.found, self.close = (
            FakeMethod(self._keep),
            FakeMethod(self._found),
            FakeMethod(self._close),
        )
        self.hurry = FakeMethod(lambda: asyncio.ensure_future(self._hurry()))

    async def _keep(self, source: str, _target: str, data: bytes) -> None:
        if source in self.away:
            raise ActorUnreachable("metadata", "keep", "no answer in 5 s")
        self.written.append((source, msgspec.msgpack.decode(data, type=RememberedFlow)))

    async def _found(self, asked: Sequence[tuple[str, str, bytes]], patience_s: float) -> tuple[float, list[bytes]]:
        self.asked.set()
        await self.may_answer.wait()
        if self.silent:
            raise ActorUnreachable("metadata", "found", "no answer in 5 s")
        self.told += [event.text() for _, _, events in asked for event in unpack(events)]
        return await self._delay(patience_s), [self._answer() for _ in asked]

    async def _delay(self, patience_s: float) -> float:
        if patience_s:
            self.delays.set()
            await self.hurried.wait()
            self.delays.clear()
        return patience_s

    async def _hurry(self) -> None:
        self.hurried.set()

    def _answer(self) -> bytes:
        return msgspec.msgpack.encode(DiscoveryAnswer(serial=1, kept=self.kept))

    async def _close(self) -> None:
        return


@asynccontextmanager
async def running(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[RayMetadata, FakeActor]]:
    """A conversation that goes on; what the fake raises comes as it is."""

    async def as_it_is(_actor: str, _name: str, ref: Any, _timeout_s: float = 0.0) -> Any:
        return await ref

    monkeypatch.setattr("actors.ray.ray_metadata.bounded", as_it_is)
    monkeypatch.setattr("actors.ray.ray_metadata.ASK_S", 0.01)
    monkeypatch.setattr("actors.ray.ray_metadata.SETTLE_S", 0.05)
    monkeypatch.setattr("actors.ray.ray_metadata.ray.kill", lambda _handle: None)
    metadata, actor = RayMetadata(SPEC, (A, B), asyncio.Event()), FakeActor()
    # never so old that it would be replaced
    metadata._actor = MetadataHandle(actor, SPEC, float("inf"), inherited=False)
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
        metadata.store_state(A, STOPPED)
        metadata.store_state(B, STOPPED)
        assert set(metadata.owed) == {A, B}
        await metadata.wait_written(120.0)
        assert metadata.owed == ()
        assert sorted(source for source, _ in actor.written) == ["a", "b"]


async def test_since_when_nobody_knows_that_a_flow_is_ours_counts_from_before_the_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, waited_s = 100.0, 0.0
    monkeypatch.setattr("actors.ray.ray_metadata.now_s", lambda: now)
    metadata, actor = RayMetadata(SPEC, (A,), asyncio.Event()), FakeActor()

    async def slow(_actor: str, _name: str, _ref: Any, _timeout_s: float) -> tuple[float, list[bytes]]:
        nonlocal now
        _ref.close()
        now += 3.0 + waited_s
        return waited_s, [msgspec.msgpack.encode(DiscoveryAnswer(serial=1, unrenewed_s=2.0))]

    monkeypatch.setattr("actors.ray.ray_metadata.bounded", slow)
    link = metadata._actor = MetadataHandle(actor, SPEC, now, inherited=False)
    assert metadata.found(A).unrenewed_s == 0.0
    await metadata._ask(link)
    assert metadata.found(A).unrenewed_s == 5.0
    now += 20.0  # nobody answers, or all of this was frozen
    assert metadata.found(A).unrenewed_s == 25.0
    waited_s = 4.0
    await metadata._ask(link, patience_s=4.0)
    assert metadata.found(A).unrenewed_s == 5.0, "the time for which the actor delays its answer is no doubt"


async def test_a_target_that_is_away_holds_up_nobody_and_is_owed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch) as (metadata, actor):
        actor.away.add("a")
        metadata.store_state(A, STOPPED)
        metadata.store_state(B, STOPPED)
        await until(lambda: metadata.owed == (A,))
        assert actor.written == [("b", STOPPED)]
        await metadata.settle()
        assert metadata.owed == (A,), "what could not be written at the end is known to be owed"
        metadata.store_state(A, RememberedFlow())
        actor.away.clear()
        await metadata.wait_written(120.0)
        assert actor.written[-1] == ("a", RememberedFlow()), "what is wanted last is written"


async def test_discovery_goes_on_while_a_write_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch) as (metadata, actor):
        never = asyncio.Event()

        async def hangs(*_words: object) -> None:
            await never.wait()

        actor.store_state = FakeMethod(hangs)
        metadata.store_state(A, STOPPED)
        metadata.store_event(event(1))
        await until(lambda: actor.told == ["1"])
        assert metadata.found(A).serial == 1


async def test_events_that_overflow_while_others_are_told_are_written_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch) as (metadata, actor):
        actor.may_answer.clear()
        for number in range(EVENTS_KEPT):
            metadata.store_event(event(number))
        await until(lambda: not metadata._flows[A].to_store and not actor.told)  # the full buffer is on its way
        for number in range(EVENTS_KEPT, 2 * EVENTS_KEPT):
            metadata.store_event(event(number))
        actor.may_answer.set()
        await until(lambda: len(actor.told) >= 2 * EVENTS_KEPT)
        assert actor.told == [str(number) for number in range(2 * EVENTS_KEPT)]


async def test_events_that_were_not_heard_are_told_again_the_newest_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch) as (metadata, actor):
        actor.silent = True
        for number in range(EVENTS_KEPT):
            metadata.store_event(event(number))
        for _ in range(2):
            actor.asked.clear()
            await actor.asked.wait()  # the second time: what the first was asked with is back
        metadata.store_event(event(EVENTS_KEPT))
        actor.silent = False
        await until(lambda: len(actor.told) >= EVENTS_KEPT)
        assert actor.told == [str(number) for number in range(1, EVENTS_KEPT + 1)]


@pytest.mark.parametrize("deed", ["an event", "a reload", "a flow to give back"])
async def test_an_actor_without_news_is_not_waited_for_when_there_is_something_to_send(
    monkeypatch: pytest.MonkeyPatch, deed: str
) -> None:
    async with reloadable(monkeypatch) as (metadata, actor):
        actor.kept = RememberedFlow()
        await actor.delays.wait()
        if deed == "an event":
            metadata.store_event(event(1))
            await until(lambda: actor.told == ["1"])
        elif deed == "a reload":
            metadata.reload(AFTER, (A, B))
            await until(lambda: actor.specs == [AFTER])
        else:
            metadata.give_back(B)
            await until(lambda: actor.given_back == ["b"])
        assert actor.hurried.is_set()


C = FlowName("c", "z")


class Reloadable(FakeActor):
    """Tells which reload made each flow, and takes flows back."""

    def __init__(self) -> None:
        super().__init__()
        self.specs: list[MirrorSpec] = []
        self.made: dict[tuple[str, str], int] = {}
        self.given_back: list[str] = []
        self.slow = False
        self.serial = 1
        self.reload, self.give_back = FakeMethod(self._reload), FakeMethod(self._give_back)
        self.in_reload: Callable[[], None] = lambda: None

    async def _reload(self, spec: bytes) -> list[tuple[str, str, int]]:
        self.specs.append(msgspec.msgpack.decode(spec, type=MirrorSpec))
        self.in_reload()
        return [(source, target, made) for (source, target), made in self.made.items()]

    async def _give_back(self, source: str, _target: str) -> None:
        if self.slow:
            raise ActorUnreachable("metadata", "give_back", "no answer in 5 s")
        self.given_back.append(source)

    def _answer(self) -> bytes:
        return msgspec.msgpack.encode(DiscoveryAnswer(serial=self.serial, kept=self.kept))


@asynccontextmanager
async def reloadable(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[RayMetadata, Reloadable]]:
    monkeypatch.setitem(globals(), "FakeActor", Reloadable)
    async with running(monkeypatch) as (metadata, actor):
        assert isinstance(actor, Reloadable)
        yield metadata, actor


AFTER = msgspec.structs.replace(SPEC, config=ConfigRef(path="/c", digest="e"))


async def test_a_reload_reaches_the_actor_and_flows_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    async with reloadable(monkeypatch) as (metadata, actor):
        actor.made = {A: 0, B: 0, C: 1}
        await until(lambda: metadata.found(A).serial == 1)
        metadata.reload(AFTER, (A, C))
        await until(lambda: metadata.found(C).serial == 1)
        assert actor.specs == [AFTER]
        metadata.store_state(C, STOPPED)
        await until(lambda: ("c", STOPPED) in actor.written)
        metadata.store_event(FlowTroubled(flow=B, what="removed"))
        metadata.give_back(B)
        await until(lambda: actor.given_back == ["b"])
        await until(lambda: B not in metadata._flows)
        assert "removed" in actor.told, "what is owed of a flow is written before it is given back"
        assert metadata.owed == ()


async def test_a_flow_that_was_made_again_counts_on_and_is_told_what_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with reloadable(monkeypatch) as (metadata, actor):
        actor.serial = 7
        metadata.store_state(A, STOPPED)
        await until(lambda: metadata.found(A).serial == 7 and actor.written == [("a", STOPPED)])
        actor.made, actor.serial = {A: 1, B: 0}, 7
        metadata.reload(AFTER, (A, B))
        await until(lambda: metadata.found(A).serial == 14)
        assert metadata.found(B).serial == 7
        await until(lambda: actor.written == [("a", STOPPED)] * 2)


async def test_a_reload_in_a_reload_is_said_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with reloadable(monkeypatch) as (metadata, actor):
        last = msgspec.structs.replace(SPEC, config=ConfigRef(path="/c", digest="f"))

        def again() -> None:
            actor.in_reload = lambda: None
            metadata.reload(last, (A, B))

        actor.in_reload = again
        metadata.reload(AFTER, (A, B))
        await until(lambda: actor.specs == [AFTER, last])


async def test_a_flow_that_cannot_be_given_back_yet_is_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async with reloadable(monkeypatch) as (metadata, actor):
        actor.slow = True
        actor.away.add("b")
        metadata.store_state(B, STOPPED)
        metadata.give_back(B)
        await until(lambda: metadata.found(A).serial == 1)
        assert metadata.owed == (B,)
        actor.away.clear()
        await until(lambda: metadata.owed == ())
        actor.asked.clear()
        await actor.asked.wait()
        assert not actor.given_back
        actor.slow = False
        await until(lambda: actor.given_back == ["b"])


async def test_a_flow_that_is_wanted_again_while_it_is_given_back_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with reloadable(monkeypatch) as (metadata, actor):
        give_back = actor._give_back

        async def meanwhile(source: str, target: str) -> None:
            await give_back(source, target)
            metadata.reload(AFTER, (A, B))

        actor.give_back = FakeMethod(meanwhile)
        handle = metadata._actor
        assert handle is not None
        metadata.give_back(B)
        await until(lambda: len(actor.specs) >= 1 and handle.spec is metadata._spec)
        assert B in metadata._flows
