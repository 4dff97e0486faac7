"""`raymirror translate` without brokers: the chosen flow, the conditions, the exit codes."""

import argparse
import json
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import msgspec
import pytest

from actors.cli import main
from actors.cli.common import exits
from actors.cli.common.questions import BadQuestion
from actors.cli.failover import translate
from actors.cli.failover.translate import chosen_flow, table, why_not
from engine.base.errors import ConnectionLost
from engine.core.reports.translated import Translated, TranslationRow
from engine.services.translate import UnknownGroup
from tests.unit.engine.config_files import BASE, mirror

CONFIG = BASE + "sync.group.offsets.enabled = true\n"


def row(source: int, target: int = -1, stored: int = -1, **more: Any) -> TranslationRow:
    how = {"how": "run"} if target >= 0 else {"why_not": "beyond"}
    return TranslationRow(
        topic="t", partition=0, source_offset=source, target_offset=target, stored=stored, **{**how, **more}
    )


def translated(*rows: TranslationRow, target_state: str = "inactive") -> Translated:
    return Translated(flow="A->B", group="g", source_state="inactive", target_state=target_state, rows=rows)


class Desk:
    """Gives answers from a script, the last again and again."""

    script: ClassVar[list[Translated | Exception]] = []
    asked: ClassVar[list[dict[str, bool]]] = []
    gone: ClassVar[str] = ""

    def __init__(self, *_made_of: object, backwards: bool) -> None:
        self.backwards = backwards

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def translate(self, *, apply: bool, stable: bool) -> Translated:
        self.asked.append({"apply": apply, "stable": stable, "backwards": self.backwards})
        found = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture(autouse=True)
def _scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_pause(_seconds: float) -> None:
        return None

    Desk.script.clear()
    Desk.asked.clear()
    monkeypatch.setattr(translate, "GroupTranslator", Desk)
    monkeypatch.setattr(translate, "pause", no_pause)


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "mm2.properties"
    path.write_text(CONFIG)
    return str(path)


def ask(config: str, *words: str) -> int:
    return main.main(["translate", "g", config, *words])


@pytest.mark.parametrize(
    ("found", "words", "code", "complaint"),
    [
        (translated(row(5, 7)), (), exits.OK, ""),
        (translated(), (), exits.OK, ""),
        (translated(row(5, 7), row(6)), (), exits.FAILED, "no translation yet for 1 of 2 partitions"),
        (translated(row(5, 7), row(6, mirrored=False)), (), exits.OK, ""),
        (translated(row(5, 7, 7)), ("--apply",), exits.OK, ""),
        (
            translated(row(5, 7, 9)),
            ("--apply",),
            exits.FAILED,
            "another offset is committed on the target: 1 of 1 partition",
        ),
        (translated(row(5, 7), target_state="active"), ("--apply",), exits.FAILED, "has members on the target"),
        (
            translated(row(5, 7, 6)),
            ("--hold-until-equal", "--timeout", "0"),
            exits.FAILED,
            "another offset is committed on the target",
        ),
        (translated(row(5, 7, 7, exact=False)), ("--apply",), exits.OK, ""),
        (
            translated(row(5, 7, 7, exact=False)),
            ("--hold-until-equal", "--timeout", "0"),
            exits.FAILED,
            "only known from MM2's offset syncs, not exact: 1 of 1 partition",
        ),
    ],
)
def test_the_exit_code_says_whether_it_is_as_asked(
    found: Translated,
    words: tuple[str, ...],
    code: int,
    complaint: str,
    config: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Desk.script.append(found)
    assert ask(config, *words) == code
    said = capsys.readouterr().err
    assert complaint in said
    assert bool(said) == bool(complaint)


def test_it_holds_until_both_sides_are_equal_and_bears_brokers_that_are_away(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Desk.script += [translated(row(5)), ConnectionLost("b:1"), translated(row(5, 7, 6)), translated(row(5, 7, 7))]
    assert ask(config, "--hold-until-equal", "--json") == exits.OK
    assert json.loads(capsys.readouterr().out)["rows"][0]["stored"] == 7
    assert Desk.asked == [{"apply": False, "stable": True, "backwards": False}] * 4


def test_a_broker_that_stays_away_is_said(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    Desk.script.append(ConnectionLost("b:1"))
    assert ask(config, "--hold-until-equal", "--timeout", "0") == exits.UNUSABLE
    assert ask(config) == exits.UNUSABLE
    assert capsys.readouterr().err.count("connection lost: b:1") == 2
    assert len(Desk.asked) == 2


def looked_back(*rows: TranslationRow, **changes: Any) -> Translated:
    """The last checkpoints of a group whose source does not answer."""
    found = [
        msgspec.structs.replace(one, exact=False, as_of_ms=1_700_000_000_000, how="last checkpoint") for one in rows
    ]
    return msgspec.structs.replace(translated(*found, **changes), source_state="unknown", source="a:1 refused")


@pytest.mark.parametrize(
    ("found", "words", "code", "complaint"),
    [
        (looked_back(row(5, 7)), (), exits.NOT_EQUAL, "last checkpoints (the oldest of 2023-11-14T22:13:20Z)"),
        (looked_back(row(5, 7, 7)), ("--apply",), exits.NOT_EQUAL, "later commits of the group are not known"),
        (
            looked_back(row(5, 7, 9)),
            ("--apply",),
            exits.FAILED,
            "another offset is committed on the target: 1 of 1 partition",
        ),
        (looked_back(), (), exits.NOT_EQUAL, "last checkpoints; later commits"),
    ],
)
def test_without_the_source_the_last_checkpoints_answer(
    found: Translated,
    words: tuple[str, ...],
    code: int,
    complaint: str,
    config: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Desk.script.append(found)
    assert ask(config, *words) == code
    said = capsys.readouterr()
    assert "the source does not answer (a:1 refused)" in said.err
    assert complaint in said.err
    assert ("2023-11-14T22:13:20Z" in said.out) == bool(found.rows)


def test_nothing_is_held_equal_to_a_source_that_does_not_answer(
    config: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Desk, "gone", "a:1 refused")
    assert ask(config, "--hold-until-equal") == exits.UNUSABLE
    assert "a:1 refused; without the source nothing can be equal" in capsys.readouterr().err
    assert Desk.asked == []


def test_what_is_asked_for_reaches_the_desk(config: str) -> None:
    Desk.script.append(translated(row(5, 7, 7)))
    assert ask(config, "--apply", "--backwards") == exits.OK
    assert Desk.asked == [{"apply": True, "stable": False, "backwards": True}]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--backwards",), "add --apply"),
        (("--flow", "A->C"), "there is no flow 'A->C'; use one of 'A->B'"),
    ],
)
def test_bad_questions(words: tuple[str, ...], complaint: str, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(config, *words) == exits.UNUSABLE
    assert complaint in capsys.readouterr().err
    assert Desk.asked == []


def test_waiting_for_commits_that_nobody_makes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(BASE)
    args = argparse.Namespace(config=path, flow=None, hold_until_equal=True, apply=False, backwards=False)
    with pytest.raises(BadQuestion, match=r"forever; add --apply, or set sync\.group\.offsets\.enabled"):
        translate.run(args)


def test_a_group_that_is_not_there_is_bad_input(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    Desk.script.append(UnknownGroup("g", "A"))
    assert ask(config) == exits.UNUSABLE
    assert "group 'g' has neither members nor commits on cluster 'A'" in capsys.readouterr().err


def test_of_several_flows_one_must_be_named() -> None:
    both = mirror("B->A.enabled = true\n")
    assert str(chosen_flow(both, "B->A").name) == "B->A"
    with pytest.raises(BadQuestion, match="there are 2 flows; choose one: --flow 'A->B' or 'B->A'"):
        chosen_flow(both, None)
    assert str(chosen_flow(mirror(), None).name) == "A->B"


def test_the_table_shows_what_is_known_and_why_the_rest_is_not() -> None:
    drawn = table(translated(row(5, 7, 6, target_topic="A.t"), row(8, target_topic="A.t")))
    cells = [list(column.cells) for column in drawn.columns]
    assert [column[0] for column in cells] == ["t-0", "5", "A.t", "7", "6", "the same record", ""]
    assert [column[1] for column in cells] == ["t-0", "8", "A.t", "-", "-", "-", "not copied yet"]


def test_what_has_no_answer_is_said_before_what_is_not_equal() -> None:
    assert why_not(translated(row(5, 7, 6), row(8))) == "group g: no translation yet for 1 of 2 partitions"
