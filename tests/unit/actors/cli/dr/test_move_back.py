"""What `raymirror move --topics --undo` asks, refuses and prints, with a check and a driver that answer at once."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from actors.cli.common import exits
from actors.cli.dr import move_back
from actors.cli.dr.move_back import CheckedBack
from actors.cli.main import main
from engine.services.dr.moves.back import MoveBackChoices
from engine.services.dr.operation_service import StoredOperations
from policies.dr.operation_steps import MOVE_BACK
from policies.dr.operations import DrOperation, begun, done, finished
from policies.patterns import PatternList
from tests.unit.engine.config_files import BASE

CHOICES = MoveBackChoices(fence="none", topics=("orders",))
FREE = CheckedBack(choices=CHOICES, reasons=(), left=())
WRITTEN = (("written-on-target", "producers wrote 2 records"),)


class Stage:
    """What the command finds, and what it did."""

    def __init__(self) -> None:
        self.checked = FREE
        self.begun: list[MoveBackChoices] = []
        self.asked: list[tuple[bool, tuple[str, ...]]] = []

    @contextmanager
    def control_of(self, *_args: object) -> Iterator[None]:
        yield None

    async def check(self, _found: object, patterns: PatternList, ignore: tuple[str, ...]) -> CheckedBack:
        self.asked.append((patterns.matches("orders"), ignore))
        return self.checked

    async def back(self, _found: object, _control: object, choices: MoveBackChoices) -> tuple[DrOperation, Any]:
        self.begun.append(choices)
        facts = choices.facts()
        operation = DrOperation(id="2", kind="move-back", source="A", target="B", who="ann", began_ms=1, choices=facts)
        for rule in MOVE_BACK:
            operation = done(begun(operation, rule.name, 2), rule.name, 3, {})
        return finished(operation, 4), StoredOperations(copies={})


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    found = Stage()
    monkeypatch.setattr(move_back, "control_of", found.control_of)
    monkeypatch.setattr(move_back, "check_back", found.check)
    monkeypatch.setattr(move_back, "move_back", found.back)
    return found


def given(folder: Path, *words: str) -> int:
    path = folder / "mm2.properties"
    path.write_text(BASE)
    return main(["move", "--config", str(path), "--topics", "ord.*", "--undo", *words])


def test_producers_that_went_back_are_told(stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert given(tmp_path, "--yes", "--ignore", "not-known") == exits.OK
    out = capsys.readouterr().out
    assert "move-back 2 of A->B: finished" in out
    assert "the producers of orders may write to cluster 'A' again, and not to 'B'" in out
    assert (stage.asked, stage.begun) == ([(True, ("not-known",))], [CHOICES])


def test_what_keeps_them_there_is_told_and_nothing_begins(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.checked = msgspec.structs.replace(FREE, reasons=(("not-known", "x"), *WRITTEN), left=WRITTEN)
    assert given(tmp_path, "--yes") == exits.NOT_EQUAL
    out = capsys.readouterr().out
    assert "not-known: x (ignored)" in out
    assert "written-on-target: producers wrote 2 records\n" in out
    assert "stay where they are; nothing was changed" in out
    assert given(tmp_path, "--json") == exits.NOT_EQUAL
    assert json.loads(capsys.readouterr().out)["left"] == [list(WRITTEN[0])]
    assert stage.begun == []


def test_a_look_changes_nothing(stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert given(tmp_path, "--dry-run") == exits.OK
    out = capsys.readouterr().out
    assert "3. hand-back" in out
    assert "the producers of 1 topic could write to 'A' again; nothing was changed" in out
    assert stage.begun == []


def test_somebody_must_say_yes(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))
    assert given(tmp_path) == exits.UNUSABLE
    assert "add --yes" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    for answer, code, begun_count in (("no", exits.UNUSABLE, 0), ("A->B", exits.OK, 1)):
        monkeypatch.setattr("builtins.input", lambda _text, answer=answer: answer)
        assert given(tmp_path) == code
        assert len(stage.begun) == begun_count
