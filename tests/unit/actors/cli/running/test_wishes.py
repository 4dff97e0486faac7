"""`pause` and `stop`: done only when the desired state is stored; a supervisor that has failed does not block them."""

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.cli.common import exits
from actors.cli.common.questions import BadQuestion
from actors.cli.failover import open_operation
from actors.cli.failover.open_operation import OperationOpen
from actors.cli.running import pause, resume, stop
from actors.local.session import MirrorPlace
from actors.model.requests import ENDED, MirrorLost
from actors.model.states import Command
from actors.model.status import MirrorStatus
from policies.dr.operations import DrOperation
from tests.unit.actors.fakes import Clock, FakeFleet
from tests.unit.actors.mirrors import started


class FakeMirror:
    """Answers commands with a status, or fails."""

    def __init__(self, status: MirrorStatus, *, failed: bool = False) -> None:
        self.answer, self.failed = status, failed
        self.lost: MirrorLost | None = None
        self.successor = False
        self.calls: list[str] = []

    def command(self, command: Command, flow: str | None = None, topics: tuple[str, ...] = ()) -> MirrorStatus:
        self.calls.append(command.value)
        if self.failed:
            raise MirrorLost("n", "RuntimeError: a bug")
        return self.answer

    def wait_stopped(self, _timeout_s: float) -> bool:
        return True

    def status(self) -> MirrorStatus:
        if self.lost is not None:
            raise self.lost
        return self.answer

    def is_gone(self) -> bool:
        return not self.successor

    def kill(self) -> None:
        self.calls.append("kill")

    def end_all(self) -> None:
        self.calls.append("end all")


@pytest.fixture
def status(fleet: FakeFleet, clock: Clock) -> MirrorStatus:
    return started(fleet, clock).status()


def meet(monkeypatch: pytest.MonkeyPatch, module: Any, mirror: FakeMirror) -> None:
    """Have commands find this mirror, on a Ray cluster."""

    @contextmanager
    def running_mirror(_args: argparse.Namespace) -> Iterator[tuple[FakeMirror, MirrorPlace]]:
        yield mirror, MirrorPlace(address="h:1", namespace="n", local=False)

    name = "running_mirror" if hasattr(module, "running_mirror") else "mirror_on_ray"
    monkeypatch.setattr(module, name, running_mirror)


ARGS = argparse.Namespace(flow=None, topics=(), timeout=0.0, json=False)


def test_what_is_remembered_is_done(
    status: MirrorStatus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mirror = FakeMirror(status)
    meet(monkeypatch, pause, mirror)
    assert pause.run(ARGS) == exits.OK
    meet(monkeypatch, stop, mirror)
    assert stop.run(ARGS) == exits.OK
    assert mirror.calls == ["pause", "stop", "kill"]
    assert capsys.readouterr() == ("pause: every flow\nstopped\n", "")


def test_json_is_one_object_a_command(
    status: MirrorStatus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mirror = FakeMirror(status)
    asked = argparse.Namespace(flow="A->B", topics=["t"], timeout=0.0, json=True, forget_failover=False)
    for module in (pause, resume, stop):
        meet(monkeypatch, module, mirror)
        assert module.run(asked) == exits.OK
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["command"] for one in said] == ["pause", "resume", "stop"]
    assert all(one["done"] and one["unremembered"] == [] for one in said)
    assert (said[0]["flow"], said[0]["topics"]) == ("A->B", ["t"])


def test_topics_whose_producers_have_moved_are_named_by_a_resume(
    status: MirrorStatus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = msgspec.structs.replace(status.flows[0], moved_topics=("orders",), paused_topics=("orders",))
    meet(monkeypatch, resume, FakeMirror(msgspec.structs.replace(status, flows=(flow,))))
    asked = argparse.Namespace(flow=None, topics=[], json=False, forget_failover=False)
    assert resume.run(asked) == exits.OK
    said = capsys.readouterr()
    assert said.out == "resume: every flow\n"
    assert "1 topic of A->B stays paused: producers of orders have moved to B" in said.err
    assert "raymirror move --topics 'orders' 'A->B' --undo" in said.err
    asked.json = True
    resume.run(asked)
    assert json.loads(capsys.readouterr().out)["moved"] == {"A->B": ["orders"]}


def test_a_failover_is_forgotten_before_the_flow_is_resumed(
    status: MirrorStatus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mirror = FakeMirror(status)
    meet(monkeypatch, resume, mirror)
    asked = argparse.Namespace(flow="A->B", topics=[], json=False, forget_failover=True)
    looked: list[tuple[Path, str]] = []

    def look(path: Path, flow: str) -> str:
        looked.append((path, flow))
        return ""

    monkeypatch.setattr(open_operation, "refuse_forgetting_of", look)
    assert resume.run(asked) == exits.OK
    assert mirror.calls == ["forget-failover", "resume"]
    assert looked == [(Path(status.config_path), "A->B")]
    asked.flow = None
    with pytest.raises(BadQuestion, match="needs a flow"):
        resume.run(asked)


def test_an_open_operation_refuses_to_forget_a_failover(status: MirrorStatus, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = FakeMirror(status)
    meet(monkeypatch, resume, mirror)

    def refuse(*_words: object) -> str:
        raise OperationOpen(DrOperation(id="op7", kind="failback", source="A", target="B", who="a", began_ms=1), "x")

    monkeypatch.setattr(open_operation, "refuse_forgetting_of", refuse)
    asked = argparse.Namespace(flow="A->B", topics=[], json=False, forget_failover=True)
    with pytest.raises(OperationOpen, match="failback op7 of A->B has not ended"):
        resume.run(asked)
    assert mirror.calls == []
    asked.url = "http://h:1"
    assert resume.run(asked) == exits.OK, "over HTTP the server looks, and refuses"
    assert mirror.calls == ["forget-failover", "resume"]


def test_what_could_not_be_written_down_is_said(
    status: MirrorStatus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mirror = FakeMirror(msgspec.structs.replace(status, unremembered=("A->B",)))
    meet(monkeypatch, pause, mirror)
    meet(monkeypatch, stop, mirror)
    assert pause.run(ARGS) == exits.FAILED
    assert "not remembered yet for A->B" in capsys.readouterr().err
    assert stop.run(ARGS) == exits.FAILED
    said = capsys.readouterr()
    assert said.out == "stopped\n"
    assert "the stop of A->B is not stored" in said.err
    assert "raymirror does not retry this: the next run finds the state from before the stop" in said.err
    assert "while the mirror runs" not in said.err, "it does not"


def test_a_mirror_whose_supervisor_has_failed_is_stopped(
    status: MirrorStatus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mirror = FakeMirror(status, failed=True)
    meet(monkeypatch, stop, mirror)
    assert stop.run(ARGS) == exits.FAILED
    assert mirror.calls[-1] == "end all"
    assert "RuntimeError: a bug" in capsys.readouterr().err


def test_a_mirror_that_the_process_that_follows_it_ends_first_is_stopped(
    status: MirrorStatus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mirror = FakeMirror(status)
    mirror.lost = MirrorLost("n", ENDED)
    meet(monkeypatch, stop, mirror)
    assert stop.run(ARGS) == exits.OK
    assert (mirror.calls, capsys.readouterr()) == (["stop"], ("stopped\n", ""))


@pytest.mark.parametrize(("cause", "successor"), [(ENDED, True), ("GetTimeoutError", False)])
def test_a_supervisor_that_was_replaced_or_is_silent_is_not_called_stopped(
    status: MirrorStatus, monkeypatch: pytest.MonkeyPatch, cause: str, successor: bool
) -> None:
    mirror = FakeMirror(status)
    mirror.lost, mirror.successor = MirrorLost("n", cause), successor
    meet(monkeypatch, stop, mirror)
    with pytest.raises(MirrorLost):
        stop.run(ARGS)
