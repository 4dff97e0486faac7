"""Exit codes from the outcomes of commands."""

import argparse
import io
import sys
from pathlib import Path
from types import ModuleType

import pytest

from actors.cli import main
from actors.cli.common import exits
from actors.cli.common.questions import BadQuestion
from actors.local.session import NoMirror
from actors.model.requests import ASKED_WRONGLY, OVER_HTTP
from deploy.local.errors import ClusterError
from engine.base.errors import BrokerUnreachable, ConfigError, MirrorError
from engine.jobs.sql.query import SqlWrong


class Failed(ConfigError):
    """An error that is not the fault of the input."""

    exit_code = exits.FAILED


def command(monkeypatch: pytest.MonkeyPatch, outcome: int | BaseException, says: str = "") -> None:
    def run(_args: argparse.Namespace) -> int:
        if says:
            print(says)  # noqa: T201 - as commands do
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    module = ModuleType("tried_command")
    vars(module).update(run=run, add_arguments=lambda parser: parser.add_argument("--json", action="store_true"))
    monkeypatch.setitem(sys.modules, "tried_command", module)
    monkeypatch.setitem(main.COMMANDS, "try", ("tried_command", "try it"))


@pytest.mark.parametrize(
    ("outcome", "code", "line"),
    [
        (0, 0, ""),
        (1, 1, ""),
        (NoMirror("nowhere"), 3, "raymirror try: no running mirror found (nowhere)"),
        (
            ConfigError("m.properties", 7, "clusters", "is empty", "name two"),
            2,
            "raymirror try: m.properties:7: clusters",
        ),
        (Failed("m.properties", 7, "clusters", "is empty", "name two"), 1, "raymirror try: m.properties:7"),
        (ClusterError("broker 1 cannot start", "port 1 is taken", Path("b.log")), 1, "raymirror try: broker 1 cannot"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_outcome_is_an_exit_code_and_one_line(
    outcome: int | BaseException,
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command(monkeypatch, outcome)
    assert main.main(["try", "--json"]) == code
    said = capsys.readouterr().err
    assert said.startswith(line)
    assert said.count("\n") == (1 if line else 0)


@pytest.mark.parametrize("error", [BadQuestion("no such record", "name another"), SqlWrong("no such table")])
def test_a_command_that_a_request_has_started_tells_by_its_code_that_the_request_is_wrong(
    error: MirrorError, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command(monkeypatch, error)
    assert main.main(["try"]) == exits.UNUSABLE, "people and their scripts know no other"
    monkeypatch.setenv(OVER_HTTP, "yes")
    assert main.main(["try"]) == ASKED_WRONGLY
    assert "no such" in capsys.readouterr().err
    command(monkeypatch, BrokerUnreachable("b:1", "refused"))
    assert main.main(["try"]) == exits.UNUSABLE, "no other words would help"


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    command(monkeypatch, ZeroDivisionError("a bug"))
    with pytest.raises(ZeroDivisionError):
        main.main(["try"])


@pytest.mark.parametrize("fails_at", ["write", "flush"])
def test_a_reader_of_the_output_that_ends_early_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fails_at: str
) -> None:
    class Unread(io.StringIO):
        def write(self, text: str) -> int:
            if fails_at == "write":
                raise BrokenPipeError
            return super().write(text)

        def flush(self) -> None:
            raise BrokenPipeError

        def fileno(self) -> int:
            return output.fileno()

    command(monkeypatch, exits.OK, says="a table")
    with (tmp_path / "out").open("w") as output:
        monkeypatch.setattr(sys, "stdout", Unread())
        assert main.main(["try"]) == main.UNREAD


@pytest.mark.parametrize("words", [[], ["nonsense"], ["try", "--nonsense"]])
def test_wrong_words_are_bad_input(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    command(monkeypatch, 0)
    with pytest.raises(SystemExit) as ended:
        main.main(words)
    assert ended.value.code == exits.UNUSABLE
