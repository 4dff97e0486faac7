"""The state file of a mirror whose Ray cluster does not answer hides no other mirror, and is named."""

import argparse
import os
from pathlib import Path

import pytest

from actors.cli.common import connect_args as asking
from actors.cli.common.silent_clusters import SilentMirror
from actors.local import session
from actors.local.session import NoMirror, SeveralMirrors
from actors.ray import connect
from actors.ray.connect import RayUnreachable
from tests.unit.actors.local.test_session import ended, state

ARGS = argparse.Namespace(address=None, mirror=None, config=None)
ANSWERING = "head:6379"


@pytest.fixture(autouse=True)
def reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the Ray clusters one answers; this machine has a state folder of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def create_connection(address: tuple[str, int], timeout: float) -> object:
        if address != ("head", 6379):
            raise ConnectionRefusedError
        return argparse.Namespace(close=lambda: None)

    def attach(address: str, *, local: bool) -> object:
        raise RayUnreachable(address, "refused")

    monkeypatch.setattr("socket.create_connection", create_connection)
    monkeypatch.setattr(connect, "attach", attach)


def on_cluster(name: str, address: str) -> None:
    session.write(state(name, pid=0, pid_start=0, address=address), os.environ)


def test_a_mirror_of_this_machine_is_found_beside_one_of_a_silent_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    on_cluster("far", "gone:1")
    session.write(state("near"), os.environ)
    assert asking._find(ARGS).namespace == "raymirror-near"
    said = capsys.readouterr().err
    assert "mirror far is left out: its Ray cluster at gone:1 does not answer" in said
    assert "raymirror-far.json" in said


def test_a_mirror_of_a_cluster_that_answers_is_one_of_several() -> None:
    on_cluster("far", ANSWERING)
    session.write(state("near"), os.environ)
    with pytest.raises(SeveralMirrors, match="far, near"):
        asking._find(ARGS)


def test_two_of_this_machine_stay_several() -> None:
    on_cluster("far", "gone:1")
    session.write(state("a"), os.environ)
    session.write(state("b"), os.environ)
    with pytest.raises(SeveralMirrors, match="a, b, far"):
        asking._find(ARGS)


def test_the_only_one_known_is_named_with_what_is_known_of_others() -> None:
    on_cluster("far", "gone:1")
    session.note_ended(ended("near", at_ms=1000), os.environ)
    with pytest.raises(SilentMirror) as silent, asking.running_mirror(ARGS):
        pytest.fail("nobody answers")
    text = str(silent.value)
    assert "mirror far was last followed from here, and no Ray cluster answers at gone:1" in text
    assert "raymirror-far.json" in text
    assert "other mirrors of this machine: mirror near ended" in text
    with pytest.raises(asking.NoConfigGiven, match=r"mirror far .*--config FILE"):
        asking.why_none(ARGS, silent.value)
    given = argparse.Namespace(**{**vars(ARGS), "config": Path("mm2.properties")})
    assert asking.why_none(given, silent.value).startswith("mirror far was last followed")


def test_an_address_without_a_note_is_told_of_as_before() -> None:
    given = argparse.Namespace(address="gone:2", mirror=None, config=None)
    with pytest.raises(NoMirror, match="no Ray cluster answers at gone:2") as refused, asking.running_mirror(given):
        pytest.fail("nobody answers")
    assert not isinstance(refused.value, SilentMirror)
