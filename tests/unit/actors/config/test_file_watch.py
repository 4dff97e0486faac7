"""A watched file: each change is applied once, also one behind a symbolic link, and a refusal is reported once."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from actors.config.config_ref import refer
from actors.config.file_watch import (
    AGAIN,
    FileFollower,
    FileStamp,
    FileWatch,
    ReloadOutcome,
    apply_file,
    command,
    stamp_of,
)
from actors.local import session
from engine.base.clock import pause

TEXT = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"


def looks(watch: FileWatch, path: Path, times: int = 3) -> list[bool]:
    return [watch.look(str(path)) for _ in range(times)]


def test_a_change_is_seen_once_when_the_file_is_quiet(tmp_path: Path) -> None:
    file, watch = tmp_path / "m.properties", FileWatch()
    file.write_text("a")
    assert looks(watch, file) == [False, True, False], "who begins to watch looks at the file as it is"
    file.write_text("ab")
    assert watch.look(str(file)) is False
    file.write_text("abc")
    assert looks(watch, file) == [False, True, False], "half written, it waits"


def test_a_file_that_is_gone_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    file, watch = tmp_path / "m.properties", FileWatch()
    assert looks(watch, file) == [False, False, False]
    file.write_text("a")
    assert looks(watch, file) == [False, True, False]
    file.unlink()
    assert looks(watch, file) == [False, False, False]
    file.write_text("b")
    assert looks(watch, file) == [False, True, False]


def config_map(folder: Path, name: str, text: str) -> None:
    """Write a file as Kubernetes does: into a new folder, to which a link is moved in one step."""
    new = folder / f"..{name}"
    new.mkdir()
    (new / "m.properties").write_text(text)
    os.utime(new / "m.properties", ns=(0, 0))
    (folder / "..new").symlink_to(new.name)
    (folder / "..new").rename(folder / "..data")


def test_a_link_that_is_moved_is_a_change_whatever_else_is_the_same(tmp_path: Path) -> None:
    file, watch = tmp_path / "m.properties", FileWatch()
    config_map(tmp_path, "one", "same")
    file.symlink_to("..data/m.properties")
    assert looks(watch, file) == [False, True, False]
    config_map(tmp_path, "two", "same")
    assert looks(watch, file) == [False, True, False]


def test_the_reference_keeps_the_link(tmp_path: Path) -> None:
    """What it leads to now is removed at the next change."""
    file = tmp_path / "m.properties"
    config_map(tmp_path, "one", TEXT)
    file.symlink_to("..data/m.properties")
    assert refer(file).path == str(file)


def test_a_stamp_has_all_that_changes(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("four")
    found = stamp_of(str(file))
    assert isinstance(found, FileStamp)
    assert (found.path, found.size, found.inode) == (str(file), 4, file.stat().st_ino)
    assert stamp_of(str(tmp_path / "f" / "under")) is None


class World:
    """A watched file, a command that ends as it is told, and what was reported."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "m.properties"
        self.file.write_text(TEXT)
        self.ref = refer(self.file)
        self.applied: list[str] = []
        self.refused: list[str] = []
        self.outcome = ReloadOutcome(0)
        self.follower = FileFollower(self._apply, self.refused.append)

    def _apply(self, path: str) -> ReloadOutcome:
        self.applied.append(path)
        return self.outcome

    def write(self, text: str) -> None:
        self.file.write_text(TEXT + text)

    async def look(self, times: int = 2) -> None:
        for _ in range(times):
            await self.follower.look(self.ref)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_a_file_as_it_runs_is_not_applied(world: World) -> None:
    await world.look(4)
    assert world.applied == []
    os.utime(world.file)
    await world.look(4)
    assert world.applied == [], "touched, but the same"


async def test_an_edited_file_is_applied_once(world: World) -> None:
    await world.look()
    world.write("tasks.max = 2\n")
    await world.look(4)
    assert world.applied == [str(world.file)]
    assert world.refused == []


async def test_a_refusal_is_reported_once_and_tried_again_later(world: World) -> None:
    world.outcome = ReloadOutcome(2, "line 5: tasks.max: 'many' is not a number")
    world.write("tasks.max = many\n")
    await world.look(4)
    assert (len(world.applied), world.refused) == (1, [world.outcome.why])
    await pause(AGAIN.most_s)
    await world.look()
    assert (len(world.applied), len(world.refused)) == (2, 1)
    world.outcome = ReloadOutcome(2, "another reason")
    await pause(2 * AGAIN.most_s)
    await world.look()
    assert world.refused[1:] == ["another reason"]


async def test_a_change_is_tried_at_once_however_often_the_file_was_refused(world: World) -> None:
    world.outcome = ReloadOutcome(2, "wrong")
    for text in ("x", "yy", "zzz"):
        world.write(text)
        await world.look()
    assert len(world.applied) == 3
    assert world.refused == ["wrong"]


async def test_a_file_that_is_put_back_needs_nothing_more(world: World) -> None:
    world.outcome = ReloadOutcome(2, "wrong")
    world.write("x")
    await world.look()
    world.write("")
    await world.look()
    await pause(2 * AGAIN.most_s)
    await world.look()
    assert (len(world.applied), world.refused) == (1, ["wrong"])
    world.write("x")
    await world.look()
    assert world.refused == ["wrong", "wrong"], "wrong again"


def test_the_command_names_the_mirror_and_the_ray_that_no_state_file_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "living", lambda _env, name: (name,) if name == "here" else ())
    here = command("/f", "raymirror-here", "ray:1", {})
    assert here[1:] == ["-m", "actors", "reload", "/f", "--mirror", "here", "--json"]
    assert command("/f", "raymirror-there", "ray:1", {})[-3:] == ["--json", "--address", "ray:1"]


@pytest.mark.parametrize(
    ("code", "printed", "said", "why"),
    [
        (0, '{"refused": []}', "warning: something\n", ""),
        (2, "", "raymirror reload: 2 problems\n  one\n  two\n", "raymirror reload: 2 problems; one; two"),
        (2, '{"refused": ["A->B: naming", "more"]}', "raymirror reload: nothing was changed\n", "A->B: naming; more"),
        (2, "", "warning: w\nraymirror reload: bad\n", "raymirror reload: bad"),
        (1, "no json", "", "raymirror reload says nothing"),
        (3, "[]", "raymirror reload: no running mirror\n", "raymirror reload: no running mirror"),
    ],
)
def test_why_a_file_was_refused(code: int, printed: str, said: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(words: list[str], **how: Any) -> subprocess.CompletedProcess[str]:
        assert "RAY_ADDRESS" not in how["env"]
        return subprocess.CompletedProcess(words, code, printed, said)

    monkeypatch.setenv("RAY_ADDRESS", "elsewhere:1")
    monkeypatch.setattr("actors.config.file_watch.subprocess.run", run)
    assert apply_file("/f", "raymirror-x", "ray:1") == ReloadOutcome(code, why)


def test_a_command_that_does_not_end_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(words: list[str], **how: Any) -> None:
        raise subprocess.TimeoutExpired(words, how["timeout"])

    monkeypatch.setattr("actors.config.file_watch.subprocess.run", run)
    assert apply_file("/f", "raymirror-x", "ray:1") == ReloadOutcome(1, "raymirror reload did not end within 600 s")
