"""`raymirror reload`, and a second `run` on a terminal: the difference, the question, the changes, exit codes."""

import argparse
import json
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from actors.cli import main
from actors.cli.common import exits
from actors.cli.running import reload as command
from actors.cli.running import run
from actors.config.config_ref import load, refer
from actors.config.difference import ConfigDifference, ConfigSide, difference
from actors.config.reload_errors import CannotReload, ReloadBusy
from actors.local import session
from actors.local.session import AlreadyRunning, MirrorPlace
from actors.model.messages import ConfigRef
from actors.model.status import MirrorStatus
from actors.ray.launch import code_version
from actors.spark.java import JAVA_RESOURCE
from engine.config.config import load_config
from engine.config.settings import ConfigWarning, MirrorConfig
from tests.unit.actors.fakes import Clock, FakeFleet
from tests.unit.actors.local.test_session import state
from tests.unit.actors.mirrors import started

BASE = "clusters = A, B, C\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nC.bootstrap.servers = c:1\n"
ONE = BASE + "A->B.enabled = true\n"
TWO = ONE + "A->C.enabled = true\n"


class FakeMirror:
    """A mirror that runs with a file as it was, and takes every other over."""

    namespace = "raymirror-A-B"

    def __init__(self, running: ConfigSide, status: MirrorStatus) -> None:
        self.running, self.answer = running, status
        self.taken: list[tuple[str, str]] = []
        self.resources: dict[str, float] = {"CPU": 4.0}
        self.connection = SimpleNamespace(ray=SimpleNamespace(cluster_resources=lambda: self.resources))

    def status(self) -> MirrorStatus:
        return self.answer

    def compare(self, ref: ConfigRef) -> ConfigDifference:
        return difference(self.running, ConfigSide(load(ref), ref.kept, ref.digest))

    def reload(self, ref: ConfigRef, running: str) -> None:
        self.taken.append((ref.digest, running))


class Stage:
    """A mirror that was started with the file of one flow."""

    def __init__(self, folder: Path, status: MirrorStatus, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file = folder / "mm2.properties"
        self.file.write_text(ONE)
        ref = refer(self.file)
        status = msgspec.structs.replace(status, version=code_version(), config_path=str(self.file))
        self.mirror = FakeMirror(ConfigSide(load(ref), ref.kept, ref.digest), status)
        self.place = MirrorPlace(address="h:1", namespace=self.mirror.namespace, local=True, pid=1)
        self.asked: list[str] = []
        self.away: tuple[str, ...] = ()

        @contextmanager
        def mirror_on_ray(args: argparse.Namespace) -> Iterator[tuple[FakeMirror, MirrorPlace]]:
            assert args.address is None
            yield self.mirror, self.place

        def ask(config: MirrorConfig, *_tell: Callable[[str], None]) -> tuple[MirrorConfig, tuple[Any, ...]]:
            checked = tuple(SimpleNamespace(flow=one.name) for one in config.flows if str(one.name) not in self.away)
            return msgspec.structs.replace(config, warnings=(ConfigWarning(3, "topics", "matches nothing"),)), checked

        monkeypatch.setattr(command, "mirror_on_ray", mirror_on_ray)
        monkeypatch.setattr(command, "prepare", lambda path, bear: ask(load_config(path), bear))
        monkeypatch.setattr("actors.config.checks.ask_clusters", ask)
        monkeypatch.setattr(command, "running", lambda _connection: {self.mirror.namespace: self.mirror, "other": None})
        monkeypatch.setattr(command, "refuse_taken", lambda _connection, others, flows: self.asked.append(str(others)))


@pytest.fixture
def stage(fleet: FakeFleet, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(tmp_path, started(fleet, clock).status(), monkeypatch)


def raymirror(*words: str | Path) -> int:
    return main.main([str(word) for word in words])


def test_the_file_that_it_runs_with_is_taken_over(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.file.write_text(TWO)
    assert raymirror("reload") == exits.OK
    assert stage.mirror.taken == [(refer(stage.file).digest, stage.mirror.running.digest)]
    out, err = capsys.readouterr()
    assert "A->C.enabled" in out
    assert "applied; flows: 1 added, 1 untouched" in out
    assert "name of the mirror" in out
    assert "at the next start" in out
    assert f"warning: {stage.file}: line 3: topics: matches nothing" in err
    assert stage.asked == ["{'other': None}"], "flows that another mirror of this Ray has are refused"


def test_a_flow_that_cannot_be_checked_is_not_added(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.file.write_text(TWO)
    stage.away = ("A->C",)
    assert raymirror("reload") == exits.UNUSABLE
    assert not stage.mirror.taken
    assert "A->C: a cluster is unreachable or a right is missing" in capsys.readouterr().err
    stage.away = ("A->B",)
    assert raymirror("reload") == exits.OK, "one that is copied needs no check"


def test_a_dry_run_changes_nothing(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.file.write_text(TWO)
    assert raymirror("reload", "--dry-run") == exits.OK
    assert not stage.mirror.taken
    assert "not applied yet; flows: 1 added, 1 untouched" in capsys.readouterr().out


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_the_file_of_another_mirror_is_refused_unless_the_mirror_is_named(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    other = tmp_path / "id.properties"
    other.write_text(BASE + "B->A.enabled = true\n")
    assert raymirror("reload", other, *words) == exits.NO_MIRROR
    assert not stage.mirror.taken
    said = capsys.readouterr().err
    assert f"no mirror runs {other}: mirror A-B runs {stage.file}" in said
    assert f"raymirror reload {other} --mirror A-B" in said
    assert raymirror("reload", other, *words, "--mirror", "A-B") == exits.OK
    assert bool(stage.mirror.taken) is not bool(words)


def test_its_own_file_may_replace_every_flow(stage: Stage) -> None:
    stage.file.write_text(BASE + "B->A.enabled = true\n")
    assert raymirror("reload") == exits.OK
    assert stage.mirror.taken


def test_json_is_one_object(stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.properties"
    other.write_text(ONE + "topics = x\n")
    assert raymirror("reload", other, "--json") == exits.OK
    said = json.loads(capsys.readouterr().out)
    assert (said["command"], said["config"], said["done"], said["differs"]) == ("reload", str(other), True, True)
    assert said["rows"][1] == {
        "flow": "A->B",
        "change": "changed",
        "key": "topics",
        "running": "(not set)",
        "new": "x",
        "takes_effect": "now",
    }


def test_what_differs_in_words_alone_is_taken_over_and_moves_nothing(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    assert raymirror("reload") == exits.OK
    assert "no setting differs from the running configuration: nothing changes" in capsys.readouterr().out
    stage.file.write_text(ONE + "# a word\n")
    assert raymirror("reload") == exits.OK
    assert (
        "no setting differs from the running configuration, only the text of the file differs"
        in capsys.readouterr().out
    )
    assert len(stage.mirror.taken) == 2


def test_a_bad_file_changes_nothing(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.file.write_text(ONE + "tasks.max = many\n")
    assert raymirror("reload") == exits.UNUSABLE
    assert "tasks.max" in capsys.readouterr().err
    assert not stage.mirror.taken


def test_what_cannot_be_is_told_with_the_whole_difference(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        "raymirror.connector.name = x",
        "replication.policy.separator = _",
        "tasks.max = 2",
        "raymirror.copiers = 9",
    ]
    stage.file.write_text(ONE + "\n".join(lines))
    assert raymirror("reload") == exits.UNUSABLE
    out, err = capsys.readouterr()
    assert "raymirror.copiers" in out
    assert not stage.mirror.taken
    for words in ("connector.name: (not set) -> x", "separator: (not set) -> _", "this file needs 10 logical CPUs"):
        assert words in err


def test_spark_needs_a_ray_that_was_started_with_it(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.file.write_text(ONE + "raymirror.spark = on\nraymirror.spark.executors = 1\n")
    assert raymirror("reload") == exits.UNUSABLE
    assert "was started without Spark" in capsys.readouterr().err
    stage.mirror.resources[JAVA_RESOURCE] = 1.0
    assert raymirror("reload") == exits.OK


def test_another_version_of_the_program_is_refused(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.mirror.answer = msgspec.structs.replace(stage.mirror.answer, version="0.0.1")
    assert raymirror("reload") == exits.UNUSABLE
    assert "runs version 0.0.1 and this command is version" in capsys.readouterr().err


def test_one_that_was_too_slow_may_be_said_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def busy(*_words: object) -> None:
        raise ReloadBusy("another reload has come first")

    monkeypatch.setattr(stage.mirror, "reload", busy)
    assert raymirror("reload") == exits.FAILED
    assert "run raymirror reload again" in capsys.readouterr().err


def test_on_a_cluster_the_note_of_this_machine_is_brought_up_to_date(stage: Stage) -> None:
    stage.place = MirrorPlace(address="h:1", namespace=stage.mirror.namespace)
    session.write(state("A-B", pid=0), os.environ)
    stage.file.write_text(ONE + "raymirror.copiers = 9\n")
    assert raymirror("reload") == exits.OK, "a Ray cluster may grow"
    (noted,) = session.living(os.environ)
    assert (noted.config_path, noted.config_digest) == (str(stage.file), refer(stage.file).digest)


# --- a second run ----------------------------------------------------------------------------------------------


@pytest.fixture
def twin(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """The mirror runs on this machine, and somebody sits at a terminal."""
    session.write(msgspec.structs.replace(state("A-B"), config_path=str(stage.file)), os.environ)
    monkeypatch.setattr(run, "can_ask", lambda: True)
    return stage


def answer(monkeypatch: pytest.MonkeyPatch, word: str | None) -> None:
    def say(_question: str) -> str:
        if word is None:
            raise EOFError
        return word

    monkeypatch.setattr("builtins.input", say)


def test_who_says_yes_has_it_reloaded(
    twin: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    twin.file.write_text(TWO)  # its flows would give it another name
    answer(monkeypatch, "y")
    assert raymirror("run", twin.file) == exits.OK
    assert len(twin.mirror.taken) == 1
    out = capsys.readouterr().out
    assert f"mirror A-B already runs in process {os.getpid()}; this file changes:" in out
    assert "A->C.enabled" in out


@pytest.mark.parametrize("word", ["", "n", None])
def test_who_does_not_changes_nothing(
    twin: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str | None
) -> None:
    twin.file.write_text(TWO)
    answer(monkeypatch, word)
    assert raymirror("run", twin.file) == exits.UNUSABLE
    assert not twin.mirror.taken
    assert "nothing was changed" in capsys.readouterr().out


def test_where_nothing_differs_nothing_is_asked(twin: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert raymirror("run", twin.file) == exits.UNUSABLE
    assert "already runs" in (said := capsys.readouterr().err)
    assert "and this file changes nothing" in said


def test_what_cannot_be_is_not_asked(twin: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    twin.file.write_text(ONE + "raymirror.connector.name = x\n")
    assert raymirror("run", twin.file) == exits.UNUSABLE
    assert "cannot change while the flow is mirrored" in capsys.readouterr().err


def test_without_a_terminal_it_says_what_to_do(
    twin: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    twin.file.write_text(TWO)
    monkeypatch.setattr(run, "can_ask", lambda: False)
    assert raymirror("run", twin.file) == exits.UNUSABLE
    assert f"raymirror reload {twin.file} --mirror A-B" in capsys.readouterr().err


def test_another_name_is_another_mirror(twin: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.cli.running.foreground.run_here", lambda *_words, **_more: 77)
    assert raymirror("run", twin.file, "--name", "else") == 77


def test_refusals_cross_processes() -> None:
    for refusal in (CannotReload(("a", "b")), ReloadBusy("c"), AlreadyRunning("raymirror-x", 5, "/c")):
        assert str(pickle.loads(pickle.dumps(refusal))) == str(refusal)
