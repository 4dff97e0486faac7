"""What `run` stores about its mirror's end, for commands during the end and later."""

import argparse
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from actors.cli.common import connect_args as asking
from actors.cli.common import exits
from actors.cli.failover import failover
from actors.cli.running import stop
from actors.local import session
from actors.local.end_notes import EndNotes
from actors.local.session import MirrorEnds, MirrorPlace, NoMirror, StateFile
from actors.model.states import Desired
from actors.model.status import MirrorStatus
from actors.ray import connect, mirror
from actors.ray.connect import RayUnreachable
from actors.ray.follow import follow
from actors.ray.mirror import MirrorLost
from tests.unit.actors.fakes import Clock, FakeFleet
from tests.unit.actors.mirrors import started

ARGS = argparse.Namespace(json=False, address=None, mirror=None, timeout=0.0)
NAME = "raymirror-one"


@pytest.fixture
def status(fleet: FakeFleet, clock: Clock) -> MirrorStatus:
    return started(fleet, clock).status()


def own() -> StateFile:
    """Say of a mirror that this very process has it."""
    pid = os.getpid()
    return StateFile(
        address="h:1",
        namespace=NAME,
        pid=pid,
        pid_start=session.process_start(pid) or 0,
        version="0",
        config_path="mm2.properties",
        config_digest="d",
        local=True,
    )


@pytest.fixture
def place() -> MirrorPlace:
    session.write(own(), os.environ)
    return session.find(None, None, os.environ)


def notes_of(*, local: bool = True) -> EndNotes:
    return EndNotes(NAME, "mm2.properties", local=local)


def refused(place: MirrorPlace) -> str:
    """Say what is known of the end; empty where the mirror goes on."""
    try:
        session.refuse_ended(place, 0, os.environ)
    except NoMirror as none:
        return f"{type(none).__name__}: {none}"
    return ""


@pytest.mark.parametrize("phase", ["draining", "stopped"])
def test_a_mirror_of_its_own_ray_ends_once_it_drains(status: MirrorStatus, place: MirrorPlace, phase: str) -> None:
    notes = notes_of()
    notes.note_status(status)
    assert not refused(place)
    notes.note_status(msgspec.structs.replace(status, phase=phase))
    notes.ends()  # once is enough
    assert refused(place).startswith("MirrorEnds: mirror one has been ending")
    assert "A->B running, 2 topics, 3 partitions" in refused(place)
    notes.ended(in_order=True)
    session.remove(NAME, os.getpid(), os.environ)
    assert "mirror one ended" in refused(place)
    assert "A->B running" in refused(place)


def test_flows_that_were_failed_over_are_noted_at_once_and_at_the_end(status: MirrorStatus, place: MirrorPlace) -> None:
    def noted() -> tuple[str, ...]:
        (state,) = session.living(os.environ)
        return state.failed_over

    def with_flow(**changes: object) -> MirrorStatus:
        return msgspec.structs.replace(status, flows=(msgspec.structs.replace(status.flows[0], **changes),))

    notes = notes_of()
    notes.note_status(with_flow(desired=Desired.STOPPED))
    assert noted() == (), "a stop of the mirror is no failover"
    notes.note_status(with_flow(desired=Desired.STOPPED, failed_over=True))
    assert noted() == ("A->B",)
    notes.note_status(with_flow(desired=Desired.STOPPED))
    assert noted() == ("A->B",), "a new supervisor"
    notes.note_status(status)
    assert noted() == (), "it was resumed"
    notes.note_status(with_flow(desired=Desired.STOPPED, failed_over=True))
    notes.ended(in_order=True)
    session.remove(NAME, os.getpid(), os.environ)
    assert "A->B was failed over, and raymirror run mm2.properties does not copy" in refused(place)
    assert "start it again with" not in refused(place)


def test_a_mirror_on_a_ray_cluster_has_ended_when_it_has_stopped(status: MirrorStatus, place: MirrorPlace) -> None:
    notes = notes_of(local=False)
    notes.note_status(msgspec.structs.replace(status, phase="draining"))
    notes.ended(in_order=True)  # others follow it
    session.remove(NAME, os.getpid(), os.environ)
    assert "process" in refused(place)
    notes.note_status(msgspec.structs.replace(status, phase="stopped"))
    notes.ended(in_order=False)
    assert "mirror one ended not in order" in refused(place)


def test_an_end_that_cannot_be_noted_is_an_end_all_the_same(
    place: MirrorPlace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = notes_of()

    def full(_path: Path, _note: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(session, "_put", full)
    notes.ends()
    notes.ended(in_order=True)
    assert not refused(place)
    warned = capsys.readouterr().err.splitlines()
    assert [("cannot be noted in" in text, "No space left" in text) for text in warned] == [(True, True)] * 2


def found(monkeypatch: pytest.MonkeyPatch, failure: Exception | None = None) -> list[str]:
    """Have a Ray that answers, or does not; give what is asked of it."""
    asked: list[str] = []

    def attach(address: str, *, local: bool) -> Any:
        asked.append(address)
        if failure is not None:
            notes_of(local=local).ends()
            raise failure
        return SimpleNamespace(close=lambda: asked.append("close"))

    monkeypatch.setattr(connect, "attach", attach)
    monkeypatch.setattr(mirror, "join", lambda _connection, _place: "mirror")
    return asked


def test_a_mirror_that_ends_is_not_asked(place: MirrorPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = found(monkeypatch)
    with asking.running_mirror(ARGS) as (handle, where):
        assert str(handle) == "mirror"
        assert where == place
    assert asked == ["h:1", "close"]
    notes_of().ends()
    with pytest.raises(MirrorEnds), asking.running_mirror(ARGS):
        pytest.fail("it ends")
    assert asked == ["h:1", "close"]


def test_a_mirror_that_ended_while_it_was_asked_says_so_and_not_that_it_does_not_answer(
    place: MirrorPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(monkeypatch, RayUnreachable("h:1", "refused"))
    with pytest.raises(MirrorEnds), asking.running_mirror(ARGS):
        pytest.fail("it ends")
    session.write(own(), os.environ)
    found(monkeypatch)
    with pytest.raises(MirrorLost), asking.running_mirror(ARGS):
        raise MirrorLost(NAME, "no answer in 15 s")
    with pytest.raises(MirrorEnds), asking.running_mirror(ARGS):
        _end_and_lose()
    assert failover.is_noted(place)


def _end_and_lose() -> None:
    notes_of().ends()
    raise MirrorLost(NAME, "ActorDiedError")


def test_a_ray_that_does_not_answer_is_no_mirror(place: MirrorPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    def attach(address: str, *, local: bool) -> Any:
        raise RayUnreachable(address, f"refused, local={local}")

    monkeypatch.setattr(connect, "attach", attach)
    with pytest.raises(NoMirror, match="refused, local=True"), asking.running_mirror(ARGS):
        pytest.fail("nobody answers")
    assert not failover.is_noted(place)


def test_stop_waits_for_a_mirror_that_ends_already(
    place: MirrorPlace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = found(monkeypatch)
    notes_of().ends()
    assert stop.run(ARGS) == exits.FAILED  # it is this process, which goes on
    assert f"process {place.pid} still runs" in capsys.readouterr().err
    monkeypatch.setattr(stop, "process_start", lambda _pid: None)
    assert stop.run(ARGS) == exits.OK
    assert capsys.readouterr().out == "stopped\n"
    assert asked == []


def test_a_mirror_ends_with_its_last_flow(status: MirrorStatus, place: MirrorPlace) -> None:
    def lost(why: str) -> MirrorStatus:
        raise MirrorLost(NAME, why)

    over = tuple(msgspec.structs.replace(flow, desired=Desired.STOPPED) for flow in status.flows)
    for answer, goes_on in (
        (lambda: status, True),
        (lambda: msgspec.structs.replace(status, phase="draining"), False),
        (lambda: msgspec.structs.replace(status, flows=over), False),
        (lambda: lost("it has ended"), False),
        (lambda: lost("no answer in 15 s"), None),
    ):
        handle: Any = SimpleNamespace(status=answer)
        assert failover.mirror_goes_on(handle, place) is goes_on
    notes_of().ends()
    handle = SimpleNamespace(status=lambda: lost("no answer in 15 s"))
    assert failover.mirror_goes_on(handle, place) is False


def test_who_follows_hears_every_status(status: MirrorStatus) -> None:
    stopped = msgspec.structs.replace(status, phase="stopped")
    answers, heard, shown = iter((status, stopped)), list[MirrorStatus](), list[tuple[str, int]]()
    handle: Any = SimpleNamespace(follow=lambda: next(answers))
    view: Any = SimpleNamespace(show=lambda one: shown.append((one.phase, len(heard))))
    asked: Any = SimpleNamespace(wait=lambda _timeout_s: False)
    assert follow(handle, view, asked, listener=SimpleNamespace(note_status=heard.append)) is stopped
    assert heard == [status, stopped]
    assert shown == [("running", 1), ("stopped", 2)]  # what is noted of the end is not held up by a terminal


def test_another_configuration_is_noted_for_commands_that_look_for_its_mirror(
    status: MirrorStatus, place: MirrorPlace
) -> None:
    notes = notes_of()
    notes.note_status(status)
    before = session.living(os.environ)
    notes.note_status(msgspec.structs.replace(status, config_path="other.properties", config_digest="e"))
    (noted,) = session.living(os.environ)
    assert before[0].config_path == "mm2.properties"
    assert (noted.config_path, noted.config_digest, noted.ending_ms) == ("other.properties", "e", 0)
    notes.ended(in_order=True)
    session.remove(NAME, os.getpid(), os.environ)
    with pytest.raises(NoMirror, match=r"raymirror run other\.properties"):
        session.find(None, None, os.environ)
