"""Which nodes get a forwarder, and what happens to those that exist: taken over, replaced, ended."""

import asyncio
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from actors.control.ports import ActorUnreachable
from actors.control.site_nodes import NodesUnknown
from actors.forwarding import forwarders
from actors.forwarding.forwarder_actor import ForwarderSpec
from actors.forwarding.forwarders import AGAIN_S, LOOK_S, SILENT_S, RayForwarders, wanted_nodes
from actors.model.messages import ConfigRef, MirrorSpec
from engine.base.clock import pause
from engine.config.settings import HttpConfig

SPEC = MirrorSpec(
    namespace="raymirror-m",
    config=ConfigRef(path="mm2.properties", digest="d" * 64),
    deployment_id="d",
    instance_id="i",
    version="1",
    drain_s=1.0,
)
ALL = HttpConfig(port=8083, bind="node", on_all_nodes=True)
MARK = f"forwarder/1/{'d' * 16}/i"


def a_node(node: str, address: str, *, alive: bool = True) -> dict[str, Any]:
    return {"NodeID": node, "NodeManagerAddress": address, "Alive": alive}


HEAD, ONE, TWO = a_node("head", "10.0.0.1"), a_node("one", "10.0.0.2"), a_node("two", "10.0.0.3")


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        ([], {}),
        ([HEAD], {}),
        ([HEAD, ONE, TWO], {"one": "10.0.0.2", "two": "10.0.0.3"}),
        ([HEAD, ONE, a_node("two", "10.0.0.3", alive=False)], {"one": "10.0.0.2"}),
        ([HEAD, a_node("beside", "10.0.0.1")], {}),
        ([HEAD, a_node("b", "10.0.0.2"), a_node("a", "10.0.0.2")], {"a": "10.0.0.2"}),
        ([HEAD, a_node("a", "10.0.0.2"), a_node("b", "10.0.0.2")], {"a": "10.0.0.2"}),
        ([a_node("one", "10.0.0.2", alive=False), a_node("one2", "10.0.0.2")], {"one2": "10.0.0.2"}),
    ],
)
def test_each_address_but_the_supervisors_gets_one(nodes: list[Mapping[str, Any]], wanted: dict[str, str]) -> None:
    assert wanted_nodes(nodes, "head", "10.0.0.1") == wanted


class FakeForwarder:
    """Notes whom it follows; `fault`: what a call raises."""

    def __init__(self, spec: bytes = b"") -> None:
        self.spec = msgspec.msgpack.decode(spec, type=ForwarderSpec) if spec else None
        self.led: list[tuple[str, int]] = []
        self.trouble = ""
        self.fault: Exception | None = None
        self.is_killed = False
        self.follow = SimpleNamespace(remote=self._follow)

    async def _follow(self, host: str, port: int) -> str:
        if self.fault is not None:
            raise self.fault
        self.led.append((host, port))
        return self.trouble


class Stage:
    """A RayForwarders whose Ray is made up: `found` are the actors that it has, `started` those that were started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.nodes: list[dict[str, Any]] = [HEAD, ONE]
        self.found: list[tuple[str, FakeForwarder]] = []
        self.started: list[tuple[str, FakeForwarder]] = []
        self.said: list[str] = []
        self.make: Callable[[bytes], FakeForwarder] = FakeForwarder
        context = SimpleNamespace(get_node_id=lambda: "head")
        monkeypatch.setattr("ray.is_initialized", lambda: True)
        monkeypatch.setattr("ray.get_runtime_context", lambda: context)
        monkeypatch.setattr("ray.util.get_node_ip_address", lambda: "10.0.0.1")
        monkeypatch.setattr("ray.kill", lambda actor: setattr(actor, "is_killed", True))
        monkeypatch.setattr(forwarders, "found_actors", lambda _namespace: self.found)
        monkeypatch.setattr(forwarders, "start_detached", self._start)
        monkeypatch.setattr(forwarders, "NodeAffinitySchedulingStrategy", lambda node, *, soft: (node, soft))
        monkeypatch.setattr(forwarders, "bounded", self._bounded)
        monkeypatch.setattr(forwarders, "log_sentence", lambda _severity, text: self.said.append(text))
        self.forwarders = RayForwarders(SPEC, ALL, self._nodes)
        self.task: asyncio.Task[None] | None = None

    def _nodes(self) -> list[dict[str, Any]]:
        if not self.nodes:
            raise NodesUnknown("it is away")
        return self.nodes

    def _start(
        self, _actor: Any, spec: ForwarderSpec, *, name: str, scheduling_strategy: object, **_options: Any
    ) -> FakeForwarder:
        assert scheduling_strategy == (spec.node, False), "on its node or nowhere"
        self.started.append((name.rpartition("/")[0], self.make(msgspec.msgpack.encode(spec))))
        return self.started[-1][1]

    @staticmethod
    async def _bounded(_who: str, _what: str, call: Any, _timeout_s: float) -> Any:
        return await call

    async def rounds(self, seconds: float = 0.1) -> None:
        """Let it work for so long; it starts at the first call."""
        self.task = self.task or asyncio.create_task(self.forwarders.run())
        await pause(seconds)
        if self.task.done():
            self.task.result()


@pytest.fixture
async def stage(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Stage(monkeypatch)
    yield made
    if made.task is not None:
        made.task.cancel()
        await asyncio.wait([made.task])


def died(fault: str = "its process ended") -> ActorUnreachable:
    gone = ActorUnreachable("forwarder", "follow", fault)
    gone.__cause__ = RuntimeError(fault)
    return gone


async def test_each_other_node_gets_one_that_is_told_where_the_supervisor_is(stage: Stage) -> None:
    await stage.rounds()
    ((name, one),) = stage.started
    assert name == f"{MARK}/one"
    assert one.spec == ForwarderSpec(config=SPEC.config, namespace=SPEC.namespace, node="one", address="10.0.0.2")
    assert one.led == [("10.0.0.1", 8083)]
    stage.nodes = [HEAD, ONE, TWO]
    await stage.rounds(LOOK_S)
    assert [name for name, _ in stage.started] == [f"{MARK}/one", f"{MARK}/two"]
    assert len(one.led) == 2, "again and again"


async def test_one_whose_node_is_gone_is_ended(stage: Stage) -> None:
    stage.nodes = [HEAD, ONE, TWO]
    await stage.rounds()
    stage.nodes = [HEAD, TWO]
    await stage.rounds(LOOK_S)
    assert {name: one.is_killed for name, one in stage.started} == {f"{MARK}/one": True, f"{MARK}/two": False}


async def test_while_ray_does_not_say_its_nodes_all_stay(stage: Stage) -> None:
    await stage.rounds()
    stage.nodes = []
    await stage.rounds(LOOK_S)
    assert not stage.started[0][1].is_killed
    assert "nodes of the Ray cluster are not known now" in stage.said[0]


async def test_an_error_that_nobody_meant_ends_no_mirror(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(forwarders, "wanted_nodes", lambda *_words: dict[str, str]()["a bug"])
        await stage.rounds(3 * LOOK_S)
    await stage.rounds(LOOK_S)
    assert len(stage.started) == 1
    assert stage.said == ["forwarders of HTTP: KeyError: 'a bug'; trying again every 5 s"]


async def test_one_that_has_died_is_replaced(stage: Stage) -> None:
    await stage.rounds()
    stage.started[0][1].fault = died()
    await stage.rounds(LOOK_S)
    assert stage.started[0][1].is_killed
    await stage.rounds(LOOK_S)
    assert len(stage.started) == 2
    assert "its process ended" in stage.said[0]


async def test_one_that_cannot_start_is_tried_again_later(stage: Stage) -> None:
    def broken(spec: bytes) -> FakeForwarder:
        one = FakeForwarder(spec)
        one.fault = died("it could not start: no file")
        return one

    stage.make = broken
    await stage.rounds(AGAIN_S - LOOK_S)
    assert len(stage.started) == 1
    await stage.rounds(2 * LOOK_S)
    assert len(stage.started) == 2


async def test_a_silent_one_may_be_starting_and_is_replaced_only_after_a_while(stage: Stage) -> None:
    await stage.rounds()
    one = stage.started[0][1]
    one.fault = ActorUnreachable("forwarder", "follow", "no answer in 5 s")
    await stage.rounds(SILENT_S - 2 * LOOK_S)
    assert (one.is_killed, stage.said) == (False, [])
    await stage.rounds(4 * LOOK_S)
    assert one.is_killed
    assert len(stage.started) == 2


async def test_what_keeps_one_from_listening_is_said_once(stage: Stage) -> None:
    await stage.rounds()
    stage.started[0][1].trouble = "10.0.0.2:8083 cannot be opened (Address already in use)"
    await stage.rounds(3 * LOOK_S)
    assert stage.said == ["HTTP on Ray node one: 10.0.0.2:8083 cannot be opened (Address already in use)"]


async def test_those_of_the_supervisor_before_are_taken_over_and_others_ended(stage: Stage) -> None:
    same, twice, other, copier = (FakeForwarder() for _ in range(4))
    stage.found = [
        ("copier/A/B/1", copier),
        (f"{MARK}/one/1.000", same),
        (f"{MARK}/one/2.000", twice),
        (f"forwarder/1/{'e' * 16}/i/two/1.000", other),
    ]
    stage.nodes = [HEAD, ONE, TWO]
    await stage.rounds()
    assert [name for name, _ in stage.started] == [f"{MARK}/two"]
    assert same.led == [("10.0.0.1", 8083)]
    assert [one.is_killed for one in (copier, same, twice, other)] == [False, False, True, True]


async def test_one_on_the_node_that_the_supervisor_has_moved_to_is_ended(stage: Stage) -> None:
    stage.found = [(f"{MARK}/head/1.000", before := FakeForwarder())]
    await stage.rounds()
    assert before.is_killed


@pytest.mark.parametrize("config", [HttpConfig(port=8083), HttpConfig(bind="node", on_all_nodes=True)])
async def test_where_none_are_wanted_earlier_ones_are_ended(stage: Stage, config: HttpConfig) -> None:
    stage.found = [(f"{MARK}/one/1.000", before := FakeForwarder())]
    stage.forwarders = RayForwarders(SPEC, config, stage._nodes)
    await stage.rounds()
    assert before.is_killed
    assert stage.task is not None
    assert stage.task.done()


async def test_a_reload_replaces_them_only_if_it_changes_the_server(stage: Stage) -> None:
    await stage.rounds()
    one = stage.started[0][1]
    spec = msgspec.structs.replace(SPEC, config=ConfigRef(path="mm2.properties", digest="e" * 64))
    assert not stage.forwarders.reload(spec, msgspec.structs.replace(ALL, lines={"raymirror.http.port": 4}))
    assert not one.is_killed
    assert stage.forwarders.reload(spec, msgspec.structs.replace(ALL, port=8084))
    assert one.is_killed
    await stage.rounds(LOOK_S)
    assert stage.started[1][0] == f"forwarder/1/{'e' * 16}/i/one"
    assert stage.started[1][1].led == [("10.0.0.1", 8084)]
    assert stage.forwarders.reload(spec, msgspec.structs.replace(ALL, on_all_nodes=False))
    assert stage.started[1][1].is_killed


async def test_the_end_of_the_mirror_ends_them(stage: Stage) -> None:
    await stage.rounds()
    stage.forwarders.end()
    assert stage.started[0][1].is_killed
