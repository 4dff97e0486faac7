"""The file of a mirror, changed by the mirror: whole or not at all, and only if it may be."""

import os
from pathlib import Path

import msgspec
import pytest

from actors.config.config_ref import ConfigMissing, refer
from actors.config.file_change import FileEdited, FileFixed, planned, replace_file, take_back
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
    before, changed = planned(refer(path), FLOW, CHANGES)
    assert (before, changed.data) == (BASE.encode(), f"{BASE}A->B.topics = t.*\n".encode())
    assert path.read_text() == BASE
    assert changed.plain["A->B.topics"] == "t.*"


def test_a_file_that_was_edited_is_not_changed(path: Path) -> None:
    ref = refer(path)
    path.write_text(f"{BASE}# more\n")
    with pytest.raises(FileEdited, match="was edited and is not applied yet; apply it first: raymirror reload"):
        planned(ref, FLOW, CHANGES)


def test_a_file_that_it_may_not_write_is_fixed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = refer(path)
    monkeypatch.setattr(os, "access", lambda where, _mode: where != path.parent)  # a test may run as root
    with pytest.raises(FileFixed, match="it may only read the file or its folder"):
        planned(ref, FLOW, CHANGES)


@pytest.mark.parametrize(
    ("name", "why"), [("mm2.properties", "working directory of a Ray job"), ("/x/mirror.yaml", "only .properties")]
)
def test_other_files_are_fixed_too(path: Path, name: str, why: str) -> None:
    with pytest.raises(FileFixed, match=why):
        planned(msgspec.structs.replace(refer(path), path=name), FLOW, CHANGES)


def test_a_file_that_is_gone_is_missing(path: Path) -> None:
    ref = refer(path)
    path.unlink()
    with pytest.raises(ConfigMissing):
        planned(ref, FLOW, CHANGES)


def test_a_file_is_replaced_with_its_mode(path: Path) -> None:
    path.chmod(0o640)
    replace_file(path, b"x = 1\n")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"x = 1\n", 0o640)
    assert list(path.parent.iterdir()) == [path]


def test_a_disk_that_is_full_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"x = 1\n")
    assert path.read_text() == BASE
    assert list(path.parent.iterdir()) == [path]


def test_only_what_was_written_is_taken_back(path: Path) -> None:
    take_back(path, b"old", BASE.encode())
    assert path.read_bytes() == b"old"
    take_back(path, b"older", b"not this")
    assert path.read_bytes() == b"old"
