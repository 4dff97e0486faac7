"""The name of a mirror is reserved from the beginning of its start until the process has ended."""

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from actors.cli.common import connect_args as asking
from actors.cli.common import exits
from actors.cli.running import background
from actors.cli.running.background import Child, NotStarted, has_begun
from actors.local import session
from actors.local.ended import EndedMirror
from actors.local.reservation import AlreadyStarting, MirrorStarts, mirror_starts, refuse_starting, reserved
from actors.local.session import AlreadyRunning
from actors.model.status import MirrorStatus
from engine.base.clock import wall_ms
from tests.harness.shell import ROOT
from tests.unit.actors.fakes import Clock, FakeFleet
from tests.unit.actors.local.test_session import state
from tests.unit.actors.mirrors import started

pytestmark = pytest.mark.local

NAME = "raymirror-one"
HOLD = f"""
import os
from actors.local.reservation import reserved
with reserved({NAME!r}, "/c", os.environ):
    print("held", flush=True)
    input()
"""


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return dict(os.environ)


@contextmanager
def starting(env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that has begun a start."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], env=env, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        yield child
        child.kill()


def refused(env: dict[str, str]) -> str:
    with pytest.raises(AlreadyStarting) as refusal, reserved(NAME, "/c", env):
        pytest.fail("another process has it")
    return str(refusal.value)


def test_a_second_start_is_refused_while_the_first_begins(env: dict[str, str]) -> None:
    with starting(env) as child:
        text = f"mirror one is already being started by process {child.pid}"
        assert text in refused(env)
        with pytest.raises(AlreadyStarting, match=text):
            refuse_starting(NAME, "/other", env)
        with pytest.raises(AlreadyStarting, match=text):
            refuse_starting("raymirror-two", "/c", env, unnamed=True)
        refuse_starting("raymirror-two", "/c", env)
        refuse_starting("raymirror-two", "/other", env, unnamed=True)
        with reserved("raymirror-two", "/c", env):
            assert text in refused(env)
        child.communicate(b"\n")
    with reserved(NAME, "/c", env):
        pass
    assert list(session.folder(env).iterdir()) == []


def test_a_mirror_that_starts_is_told_of_and_not_the_one_that_ended_before(env: dict[str, str]) -> None:
    session.note_ended(EndedMirror(namespace=NAME, config_path="/c", at_ms=wall_ms() - 60_000, in_order=True), env)
    given = argparse.Namespace(config=None, address=None, mirror="one")
    with starting(env) as child:
        text = f"process {child.pid} has been starting mirror one for 3 s; the mirror takes no commands yet"
        for name in ("one", None):
            assert str(mirror_starts(name, wall_ms() + 3000, env)).startswith(text)
        assert mirror_starts("two", wall_ms(), env) is None
        assert mirror_starts(None, wall_ms(), env, config="/c") is not None
        assert mirror_starts(None, wall_ms(), env, config="/other") is None
        with pytest.raises(MirrorStarts), asking.running_mirror(given):
            pytest.fail("it starts")
        with pytest.raises(MirrorStarts) as starts:
            asking.why_none(given, MirrorStarts(NAME, child.pid, 3.0))
        assert asking.why_none(argparse.Namespace(config=Path("/c")), starts.value).startswith(f"process {child.pid}")
        session.note_ended(EndedMirror(namespace=NAME, config_path="/c", at_ms=wall_ms() + 1000, in_order=True), env)
        assert mirror_starts("one", wall_ms(), env) is None  # it has ended, and lets its lock go
        child.kill()
        child.wait()
    session.note_ended(EndedMirror(namespace=NAME, config_path="/c", at_ms=1000, in_order=True), env)
    assert mirror_starts("one", wall_ms(), env) is None
    with pytest.raises(session.NoMirror, match="mirror one ended") as none, asking.running_mirror(given):
        pytest.fail("none runs")
    assert not isinstance(none.value, MirrorStarts)


def test_a_killed_start_bars_nobody(env: dict[str, str]) -> None:
    with starting(env) as child:
        child.send_signal(signal.SIGKILL)
        child.wait()
        refuse_starting(NAME, "/c", env)
        with reserved(NAME, "/c", env):
            pass


def test_a_released_name_is_free_and_stays_the_next_ones(env: dict[str, str]) -> None:
    with reserved(NAME, "/c", env) as first:
        first.release()
        with starting(env) as child:
            first.release()
            assert str(child.pid) in refused(env)


def test_a_mirror_that_runs_without_a_lock_is_refused_too(env: dict[str, str]) -> None:
    session.write(state(), env)
    with pytest.raises(AlreadyRunning), reserved(NAME, "/c", env):
        pytest.fail("it runs")


def test_a_start_in_the_background_that_another_one_overtook_names_it(env: dict[str, str], tmp_path: Path) -> None:
    def ended(code: int) -> Child:
        process = subprocess.Popen([sys.executable, "-c", f"raise SystemExit({code})"])
        process.wait()
        return Child(process, Path("/c"), NAME, tmp_path / "log")

    with pytest.raises(NotStarted, match="exit code 2"):
        ended(exits.UNUSABLE).refuse_ended()
    with starting(env) as child:
        with pytest.raises(AlreadyStarting, match=str(child.pid)):
            ended(exits.UNUSABLE).refuse_ended()
        with pytest.raises(NotStarted, match="exit code 1: flow A->B belongs to another"):
            ended(exits.FAILED).refuse_ended("flow A->B belongs to another")


def test_a_mirror_has_begun_once_its_topics_are_known(fleet: FakeFleet, clock: Clock) -> None:
    status = started(fleet, clock).status()
    assert status.phase == "running"
    assert has_begun(status)
    unknown = [msgspec.structs.replace(flow, topics=0, lag_records=None) for flow in status.flows]
    early = msgspec.structs.replace(status, flows=tuple(unknown))
    assert not has_begun(early)
    assert has_begun(msgspec.structs.replace(early, phase="waiting"))
    assert not has_begun(msgspec.structs.replace(status, phase="stopped"))


def test_detach_tells_why_a_mirror_ended_that_could_be_asked_for_a_moment(
    env: dict[str, str], tmp_path: Path, fleet: FakeFleet, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = started(fleet, clock).status()
    taken = msgspec.structs.replace(status, phase="draining", refused="flow A->B belongs to mirror 'm'")
    with subprocess.Popen([sys.executable, "-c", "input(); raise SystemExit(1)"], stdin=subprocess.PIPE) as process:
        session.write(state(pid=process.pid), env)

        def answer(_place: object) -> MirrorStatus:
            process.communicate(b"\n")
            return taken

        monkeypatch.setattr(background, "_status", answer)
        with pytest.raises(NotStarted, match="exit code 1: flow A->B belongs to mirror 'm'"):
            background._await_start(Child(process, Path("/c"), NAME, tmp_path / "log"))
