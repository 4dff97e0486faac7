"""The file of a mirror, changed by the mirror: whole or not at all, and only if it may be."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from actors.config.config_ref import ConfigMissing, refer
from actors.config.file_change import (
    FileEdited,
    FileFixed,
    present_file,
    replace_file,
    take_back,
    with_changes,
    with_flow,
)
from actors.config.reload_errors import CannotReload
from engine.base.errors import MirrorError, NotReady
from engine.config.settings import MirrorConfig
from policies.model import FlowName
from tests.unit.engine.config_files import BASE

FLOW = FlowName("A", "B")
CHANGES = {"topics": "t.*"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "mm2.properties"
    found.write_text(BASE)
    return found


def test_a_plan_changes_nothing(path: Path) -> None:
    before = present_file(refer(path))
    changed = with_changes(FLOW, CHANGES, before, str(path))
    assert (before, changed.data) == (BASE.encode(), f"{BASE}A->B.topics = t.*\n".encode())
    assert path.read_text() == BASE
    assert changed.plain["A->B.topics"] == "t.*"


def test_a_file_that_was_edited_is_not_changed(path: Path) -> None:
    ref = refer(path)
    path.write_text(f"{BASE}# more\n")
    with pytest.raises(FileEdited, match="was edited and is not applied yet; apply it first: raymirror reload"):
        present_file(ref)


def test_a_file_that_it_may_not_write_is_fixed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = refer(path)
    monkeypatch.setattr(os, "access", lambda where, _mode: where != path.parent)  # a test may run as root
    with pytest.raises(FileFixed, match="it may only read the file or its folder"):
        present_file(ref)


@pytest.mark.parametrize(
    ("name", "why"), [("mm2.properties", "working directory of a Ray job"), ("/x/mirror.yaml", "only .properties")]
)
def test_other_files_are_fixed_too(path: Path, name: str, why: str) -> None:
    with pytest.raises(FileFixed, match=why):
        present_file(msgspec.structs.replace(refer(path), path=name))


def test_a_file_that_is_gone_is_missing(path: Path) -> None:
    ref = refer(path)
    path.unlink()
    with pytest.raises(ConfigMissing):
        present_file(ref)


def test_a_file_is_replaced_with_its_mode(path: Path) -> None:
    path.chmod(0o640)
    replace_file(path, BASE.encode(), b"x = 1\n")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"x = 1\n", 0o640)
    assert list(path.parent.iterdir()) == [path]


def test_a_disk_that_is_full_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, BASE.encode(), b"x = 1\n")
    assert path.read_text() == BASE
    assert list(path.parent.iterdir()) == [path]


def test_a_file_behind_a_link_is_replaced_where_it_is(path: Path, tmp_path: Path) -> None:
    """Else the link would become a file of its own, and whoever keeps the real file would change nothing any more."""
    (tmp_path / "etc").mkdir()
    link = tmp_path / "etc" / "mirror.properties"
    link.symlink_to(path)
    replace_file(link, BASE.encode(), b"x = 1\n")
    assert (link.is_symlink(), path.read_bytes()) == (True, b"x = 1\n")
    take_back(link, BASE.encode(), b"x = 1\n")
    assert (link.is_symlink(), path.read_text()) == (True, BASE)
    assert list(link.parent.iterdir()) == [link]


def test_a_file_behind_a_link_is_fixed_if_its_own_folder_is(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "etc").mkdir()
    link = tmp_path / "etc" / "mirror.properties"
    link.symlink_to(path)
    ref = refer(link)
    monkeypatch.setattr(os, "access", lambda where, _mode: where != path.parent)
    with pytest.raises(FileFixed, match="it may only read the file or its folder"):
        present_file(ref)


def test_an_edit_of_the_last_moment_is_not_overwritten(path: Path) -> None:
    """Clusters are asked between the look at the file and its change, which takes seconds."""
    before = present_file(refer(path))
    path.write_text(f"{BASE}# by hand\n")
    with pytest.raises(FileEdited):
        replace_file(path, before, b"x = 1\n")
    assert path.read_text() == f"{BASE}# by hand\n"


def test_what_a_killed_change_left_is_not_in_the_way(path: Path) -> None:
    path.with_name(f".{path.name}.{os.getpid()}.part").write_text("half")
    replace_file(path, BASE.encode(), b"x = 1\n")
    assert path.read_bytes() == b"x = 1\n"


def test_a_file_keeps_its_owner(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "fchown", lambda _handle, user, group: given.append((user, group)))
    replace_file(path, BASE.encode(), b"x = 1\n")
    assert given == [(path.stat().st_uid, path.stat().st_gid)]

    def refuse(_handle: int, user: int, _group: int) -> None:
        given.append((user, -1))
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    with pytest.raises(FileFixed, match="it cannot give the file back to its owner"):
        replace_file(path, b"x = 1\n", b"x = 2\n")
    assert (path.read_bytes(), given[2:]) == (b"x = 1\n", [(-1, -1)])


def test_a_file_that_is_mounted_alone_is_fixed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Docker mounts single files: nothing can be renamed over one (EBUSY), though file and folder may be written."""

    def busy(_part: Path, _to: Path) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(Path, "replace", busy)
    with pytest.raises(FileFixed, match=r"it cannot be replaced \(Device or resource busy\)"):
        replace_file(path, BASE.encode(), b"x = 1\n")
    assert (path.read_text(), list(path.parent.iterdir())) == (BASE, [path])


def test_only_what_was_written_is_taken_back(path: Path) -> None:
    take_back(path, b"old", BASE.encode())
    assert path.read_bytes() == b"old"
    take_back(path, b"older", b"not this")
    assert path.read_bytes() == b"old"


class Clusters:
    """The checks of clusters: what they find."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.problem: MirrorError | None = None
        self.absent = ""

    def __call__(self, config: MirrorConfig, on_absent: Callable[[str], None]) -> tuple[MirrorConfig, tuple[Any, ...]]:
        self.asked.append([str(flow.name) for flow in config.flows])
        if self.problem is not None:
            raise self.problem
        if self.absent:
            on_absent(self.absent)
            return config, ()
        return config, tuple(SimpleNamespace(flow=flow.name) for flow in config.flows)


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Clusters:
    found = Clusters()
    monkeypatch.setattr("actors.config.checks.ask_clusters", found)
    return found


def test_the_clusters_of_a_new_flow_are_asked(clusters: Clusters) -> None:
    found = with_flow(FlowName("B", "A"), {"topics": "t"}, BASE.encode(), "f")
    assert found.data.decode() == f"{BASE}B->A.enabled = true\nB->A.topics = t\n"
    assert clusters.asked == [["B->A"]]


@pytest.mark.parametrize(
    ("problem", "absent", "says"),
    [
        (NotReady("topic t has another config"), "", "topic t has another config"),
        (None, "cluster 'B' cannot be reached", "B->A cannot be checked: cluster 'B' cannot be reached; try again"),
    ],
)
def test_a_flow_whose_clusters_do_not_fit_is_refused(
    clusters: Clusters, problem: MirrorError | None, absent: str, says: str
) -> None:
    clusters.problem, clusters.absent = problem, absent
    with pytest.raises(CannotReload, match=says):
        with_flow(FlowName("B", "A"), {}, BASE.encode(), "f")
