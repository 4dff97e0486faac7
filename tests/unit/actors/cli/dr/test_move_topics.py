"""What `raymirror move --topics` asks, refuses and prints, with a check and a driver that answer at once."""

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
from actors.cli.dr import move_topics
from actors.cli.dr.move_topics import CheckedMove
from actors.cli.main import main
from engine.services.dr.moves.steps import MoveChoices
from engine.services.dr.operation_service import StoredOperations
from policies.dr.operation_steps import MOVE
from policies.dr.operations import DrOperation, begun, done, finished
from policies.patterns import PatternList
from tests.unit.engine.config_files import BASE

CHOICES = MoveChoices(fence="command", topics=("orders",))
FREE = CheckedMove(choices=CHOICES, reasons=(), left=(), moved=())
WAITS = (("groups-left", "group billing reads orders"),)


class Stage:
    """What the command finds, and what it did."""

    def __init__(self) -> None:
        self.checked = FREE
        self.topics: tuple[str, ...] = ("orders",)
        self.wanted: list[MoveChoices] = []
        self.watched: list[float] = []
        self.patterns: list[PatternList] = []
        self.begun: list[MoveChoices] = []
        self.hooked: list[tuple[str, tuple[str, ...]]] = []

    @contextmanager
    def control_of(self, *_args: object) -> Iterator[None]:
        yield None

    async def matching(self, _found: object, patterns: PatternList) -> tuple[tuple[str, ...], tuple[str, ...]]:
        self.patterns.append(patterns)
        return self.topics, ()

    async def check(
        self, _found: object, _control: object, _patterns: object, wanted: MoveChoices, watch_s: float
    ) -> CheckedMove:
        self.wanted.append(wanted)
        self.watched.append(watch_s)
        return self.checked

    async def move(self, _found: object, _control: object, choices: MoveChoices) -> tuple[DrOperation, Any]:
        self.begun.append(choices)
        operation = DrOperation(
            id="op-1", kind="move", source="A", target="B", who="ann", began_ms=1, choices=choices.facts()
        )
        for rule in MOVE:
            operation = done(begun(operation, rule.name, 2), rule.name, 3, {})
        return finished(operation, 4), StoredOperations(copies={})

    def hook(self, *_args: object) -> Any:
        async def call(phase: Any, topics: tuple[str, ...]) -> None:
            self.hooked.append((phase.value, topics))

        return SimpleNamespace(call=call)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    found = Stage()
    monkeypatch.setattr(move_topics, "control_of", found.control_of)
    monkeypatch.setattr(move_topics, "_matching", found.matching)
    monkeypatch.setattr(move_topics, "check", found.check)
    monkeypatch.setattr(move_topics, "move_topics", found.move)
    monkeypatch.setattr(move_topics, "MoveHook", found.hook)
    return found


def given(folder: Path, *words: str) -> int:
    path = folder / "mm2.properties"
    path.write_text(BASE)
    return main(["move", "--config", str(path), "--topics", *words])


def test_producers_that_moved_are_told(stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert given(tmp_path, "orders", "--yes") == exits.OK
    out = capsys.readouterr().out
    assert "move op-1 of A->B: finished" in out
    assert "the producers of orders may write to cluster 'B' now" in out
    assert stage.begun == [CHOICES]
    assert stage.hooked == [("before", ("orders",))]
    assert given(tmp_path, "orders", "--yes", "--json") == exits.OK
    assert json.loads(capsys.readouterr().out)["state"] == "finished"


def test_options_are_what_was_asked_for(stage: Stage, tmp_path: Path) -> None:
    words = ("--principal", "User:x", "--leave-group", "old", "--ignore", "no-topic", "--timeout", "9", "--watch", "2")
    given(tmp_path, "orders, cl.*", "--dry-run", *words, "--fence", "none", "--everyone-allowed", "no", "A->B")
    assert stage.wanted == [
        MoveChoices(
            fence="none", principals=("User:x",), everyone="no", ignore=("no-topic",), left=("old",), timeout_s=9.0
        )
    ]
    assert stage.watched == [2.0]


def test_what_is_in_the_way_is_told_and_nothing_begins(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    accepted = ("no-topic", "the target has no topic orders")
    stage.checked = msgspec.structs.replace(FREE, reasons=(accepted, *WAITS), left=WAITS)
    assert given(tmp_path, "orders", "--yes") == exits.NOT_EQUAL
    out = capsys.readouterr().out
    assert "no-topic: the target has no topic orders (ignored)" in out
    assert "groups-left: group billing reads orders\n" in out
    assert "the producers of 1 topic are not moved; nothing was changed" in out
    assert given(tmp_path, "orders", "--yes", "--json") == exits.NOT_EQUAL
    assert json.loads(capsys.readouterr().out)["left"] == [list(WAITS[0])]
    assert stage.begun == []


def test_a_look_calls_nothing(stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert given(tmp_path, "orders", "--dry-run") == exits.OK
    out = capsys.readouterr().out
    assert "6. hand-over" in out
    assert "from here on there is no way back" in out
    assert "the producers of 1 topic could move now; nothing was changed" in out
    assert (stage.begun, stage.hooked) == ([], [])


def test_topics_that_moved_already_are_no_error(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.topics = ()
    stage.checked = CheckedMove(
        choices=msgspec.structs.replace(CHOICES, topics=()), reasons=(), left=(), moved=("orders",)
    )
    assert given(tmp_path, "orders") == exits.OK
    assert "the producers of 1 topic have moved already" in capsys.readouterr().out
    assert (stage.begun, stage.hooked) == ([], [])


def test_somebody_must_say_yes(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))
    assert given(tmp_path, "orders") == exits.UNUSABLE
    assert "add --yes" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    for answer, code, begun_count in (("no", exits.UNUSABLE, 0), ("A->B", exits.OK, 1)):
        monkeypatch.setattr("builtins.input", lambda _text, answer=answer: answer)
        assert given(tmp_path, "orders") == code
        assert len(stage.begun) == begun_count


def test_a_pattern_that_cannot_be_used_is_refused(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert given(tmp_path, "orders(", "--yes") == exits.UNUSABLE
    assert "--topics: pattern 'orders('" in capsys.readouterr().err
    assert stage.patterns == []
