"""Finds the running mirror, and recognises a stale state file."""

import os
import pickle
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from actors.local import session
from actors.local.ended import EndedMirror
from actors.local.session import AlreadyRunning, MirrorEnds, NoMirror, SeveralMirrors, StateFile


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path), "HOME": "/nowhere"}


def state(name: str = "one", pid: int | None = None, pid_start: int | None = None, address: str = "h:1") -> StateFile:
    own = os.getpid() if pid is None else pid
    return StateFile(
        address=address,
        namespace=f"raymirror-{name}",
        pid=own,
        pid_start=(session.process_start(own) or 0) if pid_start is None else pid_start,
        version="0",
        config_path="mm2.properties",
        config_digest="d",
        local=True,
    )


def test_found_by_its_state_file(env: dict[str, str]) -> None:
    session.write(state(), env)
    place = session.find(None, None, env)
    assert (place.address, place.namespace, place.local, place.pid) == ("h:1", "raymirror-one", True, os.getpid())


def test_only_its_owner_may_read_it(env: dict[str, str]) -> None:
    path = session.write(state(), env)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["raymirror-one.json"]


def test_no_mirror(env: dict[str, str]) -> None:
    with pytest.raises(NoMirror, match="raymirror run CONFIG"):
        session.find(None, None, env)


@pytest.mark.local
def test_a_dead_process_left_it(env: dict[str, str]) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    session.write(state(pid=child.pid), env)
    assert session.find(None, None, env).pid == child.pid
    child.communicate(b"\n")
    with pytest.raises(NoMirror):
        session.find(None, None, env)


@pytest.mark.local
def test_a_process_that_was_not_waited_for_is_dead_too(env: dict[str, str]) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert session.process_start(child.pid) is None
    child.wait()


def test_a_pid_that_was_used_again_is_not_the_mirror(env: dict[str, str]) -> None:
    session.write(state(pid_start=1), env)
    with pytest.raises(NoMirror):
        session.find(None, None, env)


def test_the_address_wins_over_environment_and_state_file(env: dict[str, str]) -> None:
    session.write(state(), env)
    with_ray = env | {"RAY_ADDRESS": "h:2"}
    assert session.find("h:3", None, with_ray).address == "h:3"
    assert session.find(None, None, with_ray).address == "h:2"
    assert session.find("h:3", None, env).local is False


def test_an_address_of_a_local_mirror_brings_its_state_along(env: dict[str, str]) -> None:
    session.write(state(), env)
    place = session.find("h:1", None, env)
    assert (place.namespace, place.local) == ("raymirror-one", True)


def test_several_mirrors_need_a_name(env: dict[str, str]) -> None:
    session.write(state("one"), env)
    session.write(state("two", address="h:2"), env)
    with pytest.raises(SeveralMirrors, match="one, two"):
        session.find(None, None, env)
    assert session.find(None, "two", env).address == "h:2"
    with pytest.raises(NoMirror):
        session.find(None, "three", env)


def test_a_second_mirror_of_the_same_name_is_refused(env: dict[str, str]) -> None:
    session.write(state(), env)
    with pytest.raises(AlreadyRunning, match=str(os.getpid())):
        session.refuse_second("raymirror-one", env)
    session.refuse_second("raymirror-two", env)


def test_a_second_mirror_of_the_same_file_is_refused_where_it_has_no_name_of_its_own(env: dict[str, str]) -> None:
    session.write(msgspec.structs.replace(state(), config_path="/c"), env)
    with pytest.raises(AlreadyRunning, match="raymirror reload /c --mirror one"):
        session.refuse_second("raymirror-two", env, config="/c", unnamed=True)
    session.refuse_second("raymirror-two", env, config="/c")
    session.refuse_second("raymirror-two", env, config="/other", unnamed=True)


def test_another_configuration_is_noted_by_its_owner_only(env: dict[str, str]) -> None:
    session.write(state(), env)
    other = {"config_path": "/c", "config_digest": "e"}
    session.note("raymirror-one", 0, env, **other)
    session.note("raymirror-two", os.getpid(), env, **other)
    assert [one.config_digest for one in session.living(env)] == [state().config_digest]
    session.note("raymirror-one", os.getpid(), env, **other)
    assert [(one.config_path, one.config_digest) for one in session.living(env)] == [("/c", "e")]


def test_removed_by_its_owner_only(env: dict[str, str]) -> None:
    path = session.write(state(), env)
    session.remove("raymirror-one", os.getpid() + 1, env)
    assert path.exists()
    session.remove("raymirror-one", os.getpid(), env)
    assert not path.exists()
    session.remove("raymirror-one", os.getpid(), env)


def test_half_a_file_is_no_mirror(env: dict[str, str]) -> None:
    path = session.write(state(), env)
    path.write_text('{"address": "h')
    with pytest.raises(NoMirror):
        session.find(None, None, env)


def test_the_state_folder_has_a_default(tmp_path: Path) -> None:
    assert session.folder({"HOME": str(tmp_path)}) == tmp_path / ".local/state/raymirror/mirrors"
    assert session.folder({"HOME": str(tmp_path), "XDG_STATE_HOME": "relative"}).is_relative_to(tmp_path)


def test_the_deployment_id_is_made_once(env: dict[str, str], tmp_path: Path) -> None:
    first = session.deployment_id(env)
    assert len(first) == 32
    assert session.deployment_id(env) == first
    assert session.deployment_id({"XDG_STATE_HOME": str(tmp_path / "other")}) != first


def ended(name: str = "one", *, at_ms: int = 1, in_order: bool = True, said: str = "") -> EndedMirror:
    return EndedMirror(
        namespace=f"raymirror-{name}", config_path="mm2.properties", at_ms=at_ms, in_order=in_order, said=said
    )


def test_a_mirror_that_ends_says_so_and_how_it_stood(env: dict[str, str]) -> None:
    session.write(state(), env)
    place = session.find(None, None, env)
    session.refuse_ended(place, 5000, env)
    session.note("raymirror-one", os.getpid() + 1, env, ending_ms=1000)  # another process's mirror
    session.refuse_ended(place, 5000, env)
    session.note("raymirror-one", os.getpid(), env, ending_ms=1000, said="A->B stopped, lag 0")
    for found in (place, session.find(None, None, env)):
        with pytest.raises(MirrorEnds) as ends:
            session.refuse_ended(found, 5000, env)
        assert str(ends.value) == (
            "mirror one has been ending for 4 s and takes no commands any more; its last state: A->B stopped, lag 0"
        )
        assert ends.value.place.pid == os.getpid()
        assert str(pickle.loads(pickle.dumps(ends.value))) == str(ends.value)
    with pytest.raises(AlreadyRunning):
        session.refuse_second("raymirror-one", env)


def test_a_mirror_that_has_ended_says_when_and_how_it_stood_until_it_is_started_again(env: dict[str, str]) -> None:
    session.write(state(), env)
    place = session.find(None, None, env)
    session.note_ended(ended(at_ms=1000, said="A->B stopped, lag 0"), env)
    session.refuse_ended(place, 5000, env)  # its process goes on: it has the state file
    session.remove("raymirror-one", os.getpid(), env)
    with pytest.raises(NoMirror) as none:
        session.refuse_ended(place, 5000, env)
    assert not isinstance(none.value, MirrorEnds)
    assert str(none.value) == (
        "no running mirror found: mirror one ended 4 s ago; its last state: A->B stopped, lag 0;"
        " start it again with: raymirror run mm2.properties"
    )
    assert str(pickle.loads(pickle.dumps(none.value))) == str(none.value)
    with pytest.raises(NoMirror, match="mirror one ended"):
        session.find(None, None, env)
    session.write(state(), env)
    assert session.find(None, None, env).pid == os.getpid()
    session.remove("raymirror-one", os.getpid(), env)
    with pytest.raises(NoMirror, match="no --address"):
        session.find(None, None, env)


def test_of_several_that_have_ended_the_last_one_or_the_one_that_is_asked_for_is_told(env: dict[str, str]) -> None:
    session.note_ended(ended("one", at_ms=1000, in_order=False), env)
    session.note_ended(ended("two", at_ms=2000), env)
    (session.folder(env) / "raymirror-half.ended").write_text("{")
    with pytest.raises(NoMirror, match=r"mirror two ended [0-9]+ s ago; start it again"):
        session.find(None, None, env)
    with pytest.raises(NoMirror, match=r"mirror one ended not in order [0-9]+ s ago"):
        session.find(None, "one", env)
    with pytest.raises(NoMirror, match="no --address"):
        session.find(None, "three", env)


def test_a_mirror_whose_process_was_killed_says_so_and_how_to_start_it_again(env: dict[str, str]) -> None:
    session.write(state("one", pid=2**22 + 1, pid_start=1), env)
    said = (
        "no running mirror found: process 4194305 has ended without stopping mirror one in order"
        " (it was killed, or the machine went down); continue from its positions with: raymirror run mm2.properties"
    )
    for name in (None, "one"):
        with pytest.raises(NoMirror) as none:
            session.find(None, name, env)
        assert str(none.value) == said
    with pytest.raises(NoMirror, match="no --address"):
        session.find(None, "two", env)
    session.note_ended(ended("one", at_ms=1000), env)
    with pytest.raises(NoMirror, match=r"mirror one ended [0-9]+ s ago"):
        session.find(None, None, env)


def test_after_a_failover_nobody_is_told_just_to_start_it_again(env: dict[str, str]) -> None:
    over = msgspec.structs.replace(ended("one", at_ms=1000), failed_over=("A->B",))
    advice = (
        'A->B was failed over, and raymirror run mm2.properties does not copy that again: see "Failing over" in'
        " README.md"
    )
    assert over.text("one", 5000) == f"mirror one ended 4 s ago; {advice}"
    both = msgspec.structs.replace(over, failed_over=("A->B", "A->C"))
    assert "A->B and A->C were failed over, and raymirror run" in both.text("one", 5000)
    session.write(state(), env)
    session.note("raymirror-one", os.getpid() + 1, env, failed_over=("A->C",))  # another process's mirror
    session.note("raymirror-one", os.getpid(), env, failed_over=("A->B",))
    (noted,) = session.living(env)
    assert noted.failed_over == ("A->B",)
    session.write(msgspec.structs.replace(noted, pid_start=1), env)  # the process has died
    with pytest.raises(NoMirror) as none:
        session.find(None, None, env)
    assert str(none.value).endswith(f"(it was killed, or the machine went down); {advice}")
    assert "continue from its positions" not in str(none.value)


@pytest.mark.local
@pytest.mark.parametrize(("path", "digest"), [("mm2.properties", "other"), ("other.properties", "d")])
def test_a_failover_without_a_mirror_is_noted_with_those_of_its_file_that_have_ended(
    env: dict[str, str], path: str, digest: str, other: int
) -> None:
    left = session.write(state("killed", pid=2**22 + 1, pid_start=1), env)
    os.utime(left, (3000, 3000))
    elsewhere = msgspec.structs.replace(ended("elsewhere", at_ms=2000), config_path="x", config_digest="x")
    session.note_ended(elsewhere, env)
    session.note_ended(
        msgspec.structs.replace(ended("over", at_ms=1000), config_digest="d", failed_over=("B->C",)), env
    )
    living = session.write(state("living", pid=other), env)
    before = left.read_bytes(), living.read_bytes()
    for _ in range(2):
        session.note_failover("A->B", path, digest, env)
    assert (left.read_bytes(), living.read_bytes()) == before, "no state file is touched"
    assert not living.with_suffix(".ended").exists()
    assert "process 4194305 has ended" in session.last_ended("killed", 4000, env)
    assert "; A->B was failed over, and raymirror run mm2.properties does not copy" in session.last_ended(
        "killed", 4000, env
    )
    assert "ended 3 s ago; B->C and A->B were failed over" in session.last_ended("over", 4000, env)
    assert "failed over" not in session.last_ended("elsewhere", 4000, env)
    assert session.ended_ms("raymirror-killed", env) == 3_000_000, "it orders the notes as before"
    session.write(state("killed"), env)
    session.write(state("killed", pid_start=1), env)
    assert "failed over" not in session.last_ended("killed", 4000, env), "it was started again since"


def test_of_one_that_was_killed_and_one_that_ended_the_later_is_told(env: dict[str, str]) -> None:
    path = session.write(state("one", pid=2**22 + 1, pid_start=1), env)
    session.note_ended(ended("two", at_ms=2000_000), env)
    os.utime(path, (1000, 1000))
    with pytest.raises(NoMirror, match=r"mirror two ended"):
        session.find(None, None, env)
    os.utime(path, (3000, 3000))
    with pytest.raises(NoMirror, match=r"without stopping mirror one"):
        session.find(None, None, env)


def test_of_a_mirror_on_a_ray_cluster_its_ray_is_asked(env: dict[str, str]) -> None:
    session.refuse_ended(session.MirrorPlace(address="h:1", namespace="raymirror-one"), 5000, env)


def test_a_process_that_died_while_it_was_asked_is_told(env: dict[str, str]) -> None:
    place = session.MirrorPlace(address="h:1", namespace="raymirror-one", pid=os.getpid(), pid_start=1)
    session.write(state(pid_start=1), env)
    with pytest.raises(NoMirror, match=f"process {os.getpid()} has ended"):
        session.refuse_ended(place, 5000, env)


@pytest.fixture
def other() -> Iterator[int]:
    """Another process of this user that lives."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        yield child.pid
        child.communicate(b"\n")


@pytest.mark.local
def test_the_state_file_of_another_process_that_lives_is_neither_overwritten_nor_removed(
    env: dict[str, str], other: int
) -> None:
    session.write(state(pid=other), env)
    with pytest.raises(AlreadyRunning, match=f"process {other}"):
        session.write(state(), env)
    session.remove("raymirror-one", os.getpid(), env)
    session.note_ended(ended(at_ms=1000, in_order=False), env)
    assert session.find(None, None, env).pid == other
    assert [path.suffix for path in session.folder(env).iterdir()] == [".json"]


def test_an_entry_of_the_same_pid_elsewhere_is_not_ones_own(env: dict[str, str]) -> None:
    path = session.write(state(pid_start=1), env)
    session.remove("raymirror-one", os.getpid(), env)
    assert path.exists()
