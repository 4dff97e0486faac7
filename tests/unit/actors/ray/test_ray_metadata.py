"""The supervisor's calls to the metadata actor, without Ray: the state that a replacement actor gets."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from actors.control.ports import ActorUnreachable, ConfigRound, DiscoveryAnswer, RememberedFlow, RoundAnswer
from actors.model.messages import AlteredOffset, ConfigRef, MirrorSpec
from actors.model.states import Desired
from actors.ray import ray_metadata
from actors.ray.ray_metadata import RayMetadata
from policies.model import FlowName

FLOW = FlowName("A", "B")
DEADLINE_S = 30.0


class FakeActor:
    """An actor that notes what it is told to keep, and may die."""

    def __init__(self) -> None:
        self.kept: list[RememberedFlow] = []
        self.asked: list[str] = []
        self.dead = False
        self.serial = 1
        self.known: RememberedFlow | None = RememberedFlow()
        self.answer: DiscoveryAnswer | None = None
        self.patience_s: list[float] = []
        self.waited_s = 0.0
        self.store_state, self.found, self.read_again = (
            Remote(self._keep),
            Remote(self._found),
            Remote(self._read_again),
        )
        self.config_round, self.config_memory = Remote(self._config_round), Remote(self._config_memory)
        self.answer_round, self.remember_configs = Remote(self._answer_round), Remote(self._remember)
        self.hurry = Remote(lambda: None)
        self.positions = Remote(self._positions)
        self.alter_positions = Remote(self._alter_positions)
        self.altered: list[bytes] = []
        self.round_answers: list[tuple[object, ...]] = []
        self.remembered: list[bytes] = []

    async def _alter_positions(self, source: str, target: str, wanted: bytes) -> None:
        assert (source, target) == FLOW
        self.altered.append(wanted)

    async def _positions(self, source: str, target: str) -> bytes:
        return f"positions of {source}->{target}".encode()

    async def _config_round(self, _source: str, _target: str, round_id: str) -> bytes:
        return f"request of {round_id}".encode()

    async def _config_memory(self, _source: str, _target: str) -> tuple[str, bytes]:
        return "m1", b"memory"

    async def _answer_round(self, _source: str, _target: str, *answer: object) -> bool:
        self.round_answers.append(answer)
        return True

    async def _remember(self, _source: str, _target: str, memory: bytes) -> None:
        self.remembered.append(memory)

    async def _read_again(self) -> None:
        self.asked.append("look anew")

    async def _keep(self, _source: str, _target: str, kept: bytes) -> None:
        self.kept.append(msgspec.msgpack.decode(kept, type=RememberedFlow))

    async def _found(self, asked: Sequence[object], patience_s: float) -> tuple[float, list[bytes]]:
        self.asked.append("found")
        self.patience_s.append(patience_s)
        if self.dead:
            raise ActorUnreachable("metadata", "found", "ActorDiedError")
        answer = msgspec.msgpack.encode(self.answer or DiscoveryAnswer(serial=self.serial, kept=self.known))
        return self.waited_s, [answer] * len(asked)


class Remote:
    def __init__(self, call: Callable[..., Any]) -> None:
        self.remote = call


class Started:
    """What `actor_class` gives: each start is another actor."""

    def __init__(self) -> None:
        self.actors: list[FakeActor] = []

    def options(self, **_options: object) -> "Started":
        return self

    def remote(self, _spec: bytes) -> FakeActor:
        self.actors.append(FakeActor())
        return self.actors[-1]


SPEC = MirrorSpec(
    namespace="raymirror-m",
    config=ConfigRef(path="mm2.properties", digest="d" * 64),
    deployment_id="d",
    instance_id="i",
    version="1",
    drain_s=1.0,
)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """What starts actors, of which none is there at first."""
    started = Started()

    async def direct(_who: str, _what: str, call: Any, _timeout_s: float = 0.0) -> Any:
        return await call

    for name, value in (
        ("actor_class", lambda _shell: started),
        ("found_actors", lambda _namespace: []),
        ("bounded", direct),
        ("ASK_S", 0.001),
        ("AGAIN_S", -1.0),
    ):
        monkeypatch.setattr(ray_metadata, name, value)
    monkeypatch.setattr("ray.kill", lambda _actor: None)
    return started


async def until(holds: Callable[[], Any]) -> None:
    while not holds():  # noqa: ASYNC110 - nobody is told of it
        await asyncio.sleep(0.001)


async def test_an_actor_that_replaces_another_is_told_what_is_wanted(started: Started) -> None:
    line = RayMetadata(SPEC, (FLOW,), asyncio.Event())
    line.store_state(FLOW, RememberedFlow(state=Desired.STOPPED, at_ms=5))
    async with asyncio.TaskGroup() as tasks, asyncio.timeout(DEADLINE_S):
        task = tasks.create_task(line.run())
        await until(lambda: started.actors and started.actors[0].kept)
        started.actors[0].dead = True
        await until(lambda: len(started.actors) > 1 and started.actors[1].kept)
        task.cancel()
    assert started.actors[1].kept == [RememberedFlow(state=Desired.STOPPED, at_ms=5)]


async def test_an_actor_of_an_earlier_supervisor_looks_anew_before_it_is_asked(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier, line = FakeActor(), RayMetadata(SPEC, (FLOW,), asyncio.Event())
    monkeypatch.setattr(ray_metadata, "found_actors", lambda _namespace: [(f"{line._mark}/1.000", earlier)])
    async with asyncio.TaskGroup() as tasks, asyncio.timeout(DEADLINE_S):
        task = tasks.create_task(line.run())
        await until(lambda: earlier.asked.count("found") > 1)
        task.cancel()
    assert earlier.asked[0] == "look anew"
    assert earlier.asked.count("look anew") == 1
    assert not started.actors


@pytest.mark.parametrize("lacks", ["topics", "what is wanted"])
async def test_what_sets_are_placed_by_is_asked_for_often_and_told_at_once(
    started: Started, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    monkeypatch.setattr(ray_metadata, "FIRST_ASK_S", 0.001)
    monkeypatch.setattr(ray_metadata, "ASK_S", 3600.0)
    actor, looked = FakeActor(), asyncio.Event()
    actor.serial, actor.known = (0, RememberedFlow()) if lacks == "topics" else (1, None)
    monkeypatch.setattr(started, "remote", lambda _spec: actor)
    line = RayMetadata(SPEC, (FLOW,), looked)
    async with asyncio.TaskGroup() as tasks, asyncio.timeout(DEADLINE_S):
        task = tasks.create_task(line.run())
        await until(lambda: len(actor.asked) > 3)
        assert not looked.is_set()
        actor.serial, actor.known = 1, RememberedFlow()
        await looked.wait()
        asked = len(actor.asked)
        await asyncio.sleep(0.05)
        task.cancel()
    assert len(actor.asked) == asked, "from then on as often as always"
    assert line.found(FLOW).serial == 1


async def test_a_source_that_stays_away_is_not_asked_about_often_for_ever(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_metadata, "FIRST_ASK_S", 0.001)
    line = RayMetadata(SPEC, (FLOW,), asyncio.Event())
    assert line._is_awaited
    line._began_s -= ray_metadata.RESTART_S
    assert not line._is_awaited


CALM = DiscoveryAnswer(serial=1, kept=RememberedFlow())


@pytest.mark.parametrize(
    ("answer", "is_calm"),
    [
        (CALM, True),
        (msgspec.structs.replace(CALM, serial=0), False),
        (msgspec.structs.replace(CALM, kept=None), False),
        (msgspec.structs.replace(CALM, failure="the source is away"), False),
        (msgspec.structs.replace(CALM, taken="mirror x"), False),
        (msgspec.structs.replace(CALM, awaited="a sign of life"), False),
        (msgspec.structs.replace(CALM, unrenewed_s=11.0), False),
    ],
)
async def test_the_actor_delays_its_answer_only_while_all_is_well(
    started: Started, monkeypatch: pytest.MonkeyPatch, answer: DiscoveryAnswer, is_calm: bool
) -> None:
    actor = FakeActor()
    actor.answer = answer
    monkeypatch.setattr(started, "remote", lambda _spec: actor)
    monkeypatch.setattr(ray_metadata, "FIRST_ASK_S", 0.001)
    line = RayMetadata(SPEC, (FLOW,), asyncio.Event())
    async with asyncio.TaskGroup() as tasks, asyncio.timeout(DEADLINE_S):
        task = tasks.create_task(line.run())
        await until(lambda: len(actor.patience_s) > 3)
        task.cancel()
    assert actor.patience_s[0] == 0.0, "nothing is known of an actor that has not answered"
    assert set(actor.patience_s[1:]) == {ray_metadata.PATIENCE_S if is_calm else 0.0}


async def test_rounds_of_config_sync_go_to_and_fro_and_the_memory_outlives_the_actor(started: Started) -> None:
    changed = asyncio.Event()
    line = RayMetadata(SPEC, (FLOW,), changed)
    async with asyncio.TaskGroup() as tasks, asyncio.timeout(DEADLINE_S):
        task = tasks.create_task(line.run())
        await until(lambda: started.actors)
        first = started.actors[0]
        assert line.config_round(FLOW) is None
        assert line.config_round(FlowName("C", "D")) is None
        first.answer = DiscoveryAnswer(serial=1, kept=first.known, round_id="r1", memory_id="m1")
        await until(lambda: line.config_round(FLOW))
        assert line.config_round(FLOW) == ConfigRound("r1", b"request of r1")
        await until(changed.is_set)
        line.answer_round(FLOW, RoundAnswer("r1", b"plan"))
        line.answer_round(FlowName("C", "D"), RoundAnswer("r1", b"plan"))  # a flow that was removed
        await until(lambda: first.round_answers)
        assert first.round_answers == [("r1", b"plan", "")]
        first.dead = True
        await until(lambda: len(started.actors) > 1 and started.actors[1].remembered)
        task.cancel()
    assert started.actors[1].remembered == [b"memory"]


async def test_positions_are_asked_of_the_actor(started: Started) -> None:
    line = RayMetadata(SPEC, (FLOW,), asyncio.Event())
    with pytest.raises(ActorUnreachable, match="it has not started"):
        await line.positions(FLOW)
    with pytest.raises(ActorUnreachable, match="it has not started"):
        await line.alter_positions(FLOW, None)
    async with asyncio.TaskGroup() as tasks, asyncio.timeout(DEADLINE_S):
        task = tasks.create_task(line.run())
        await until(lambda: started.actors)
        assert await line.positions(FLOW) == b"positions of A->B"
        await line.alter_positions(FLOW, None)
        await line.alter_positions(FLOW, (AlteredOffset(topic="t", partition=0, offset=None),))
        task.cancel()
    packed = [msgspec.msgpack.decode(one) for one in started.actors[0].altered]
    assert packed == [None, [{"topic": "t", "partition": 0, "offset": None}]]
