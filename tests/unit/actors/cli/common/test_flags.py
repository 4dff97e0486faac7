"""Flags that all commands share, help, version and completion."""

import argparse
import importlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from actors.cli import completion, main
from actors.cli.common import exits
from actors.cli.failover.failover_tables import groups_line
from actors.local import session
from actors.observability.colours import SEVERITY, STATE, print_severity, state_text
from engine.core.lane.states import State
from tests.harness.readme import first_mirror, first_mirror_commands
from tests.harness.shell import ROOT

DEADLINE_S = 60.0
PARSER = main.build_parser(*main.COMMANDS)
NO_OBJECT = {"help", "completion"}
"""Commands whose output is text for a person or a shell by its nature."""


def commands() -> dict[str, argparse.ArgumentParser]:
    (subparsers,) = [one for one in PARSER._actions if isinstance(one, argparse._SubParsersAction)]
    return dict(subparsers.choices)


def actions(command: str) -> list[argparse.Action]:
    """The actions of a command, and of commands of it."""
    found = []
    for action in commands()[command]._actions:
        inner = action.choices.values() if isinstance(action, argparse._SubParsersAction) else ()
        found += [one for parser in inner for one in parser._actions] or [action]
    return found


@pytest.mark.parametrize("command", sorted(main.COMMANDS.keys() - NO_OBJECT))
def test_every_command_has_json(command: str) -> None:
    assert any("--json" in action.option_strings for action in actions(command))


@pytest.mark.parametrize("command", sorted(main.COMMANDS))
def test_a_flow_is_named_by_place_and_by_option_alike(command: str) -> None:
    ways = [action for action in actions(command) if action.dest == "flow"]
    assert [bool(way.option_strings) for way in ways] == [False, True] * (len(ways) // 2)


@pytest.mark.parametrize("command", sorted(main.COMMANDS))
def test_a_mirror_is_named_alike(command: str) -> None:
    ways = [action for action in actions(command) if {"--mirror", "--name"} & set(action.option_strings)]
    assert all(set(way.option_strings) == {"--mirror", "--name"} for way in ways)


@pytest.mark.parametrize(
    "words",
    [
        ["pause", "a->b", "--topics", "t"],
        ["pause", "--flow", "a->b", "--topics", "t"],
        ["pause", "--topics", "t", "--flow", "a->b"],
        ["pause", "a->b", "--flow", "a->b"],
        ["restart", "--flow", "a->b"],
        ["restart", "a->b"],
        ["translate", "group", "mm2.properties", "a->b"],
        ["translate", "group", "mm2.properties", "--flow", "a->b"],
        ["plan", "mm2.properties", "a->b"],
        ["audit", "mm2.properties", "--flow", "a->b"],
    ],
)
def test_these_name_the_same_flow(words: list[str]) -> None:
    assert PARSER.parse_args(words).flow == "a->b"


BY_CONFIG = ("apply", "audit", "check", "plan", "takeover", "translate")
"""Commands that ask clusters, and no mirror: a configuration says which."""


@pytest.fixture
def mirror_of_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a mirror `night`, which runs in this process."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    pid = os.getpid()
    state = session.StateFile(
        address="a:1",
        namespace="raymirror-night",
        pid=pid,
        pid_start=session.process_start(pid) or 0,
        version="0",
        config_path=str(tmp_path / "night.properties"),
        config_digest="d",
        local=True,
    )
    session.write(state, os.environ)
    return tmp_path / "night.properties"


def settled(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> argparse.Namespace:
    """What a command is run with."""
    given: list[argparse.Namespace] = []
    module = importlib.import_module(main.COMMANDS[words[0]][0])

    def run(args: argparse.Namespace) -> int:
        given.append(args)
        return exits.OK

    monkeypatch.setattr(module, "run", run)
    assert main.main(words) == 0
    return given[0]


@pytest.mark.parametrize("command", BY_CONFIG)
def test_a_command_works_with_the_configuration_of_a_mirror_by_its_name(
    command: str, mirror_of_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = {"takeover": ["takeover", "--check"], "translate": ["translate", "billing"]}.get(command, [command])
    for name in (["--mirror", "night"], ["--name", "raymirror-night"]):
        assert settled(monkeypatch, [*words, *name]).config == mirror_of_file
    assert main.main([*words, "--mirror", "day"]) == exits.NO_MIRROR


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "--mirror", "night", "a->b"],
        ["plan", "a->b", "--mirror", "night"],
        ["plan", "--flow", "a->b", "--mirror", "night"],
        ["translate", "billing", "--mirror", "night", "a->b"],
        ["translate", "billing", "a->b", "--apply", "--mirror", "night"],
    ],
)
@pytest.mark.usefixtures("mirror_of_file")
def test_with_a_mirror_the_flow_stands_where_the_configuration_would(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = settled(monkeypatch, words)
    assert (given.flow, given.config.name) == ("a->b", "night.properties")


@pytest.mark.parametrize(
    "words",
    [
        ["translate", "billing", "--apply", "m.properties", "a->b"],
        ["translate", "billing", "m.properties", "--apply", "a->b"],
        ["translate", "--apply", "billing", "m.properties", "--flow", "a->b"],
    ],
)
def test_places_may_stand_behind_options(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    given = settled(monkeypatch, words)
    assert (given.config, given.flow, given.group) == (Path("m.properties"), "a->b", "billing")


def test_no_flow_is_every_flow() -> None:
    assert PARSER.parse_args(["pause"]).flow is None
    assert PARSER.parse_args(["lag", "--behind"]).flow is None


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["pause", "a->b", "--flow", "a->c"], "two flows are named, 'a->b' and 'a->c'"),
        (["restart"], "which flow?"),
        (["failover", "--now"], "which flow?"),
        (["plan"], "which configuration? give CONFIG"),
        (["plan", "m.properties", "--mirror", "night"], "give only one"),
        (["check", "a->b", "--mirror", "night"], "give only one"),
        (["plan", "m.properties", "--json", "a->b", "more"], "unrecognized arguments: a->b more"),
        (["plan", "m.properties", "--jason"], "unrecognized arguments: --jason"),
        (["help", "nonsense"], "invalid choice: 'nonsense'"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(words)
    assert ended.value.code == exits.UNUSABLE
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--version"], r"raymirror \S+ \(Python 3\.11\.\d+, Ray 2\.\S+; batches: (native|pure Python).*\)\n"),
        (["help"], r"usage: raymirror .*COMMAND"),
        (["help", "pause"], r"usage: raymirror pause "),
        (["help", "cluster", "up"], r"usage: raymirror cluster up .*--sample"),
        (["help", "lag"], r".*--behind\s+only\s+partitions\s+that\s+are\s+behind,\s+make\s+no\s+progress,"),
    ],
)
def test_help_and_version_are_told(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(words)
    assert ended.value.code == 0
    assert re.match(says, capsys.readouterr().out, re.DOTALL)


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_a_completion_knows_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(command in script for command in main.COMMANDS)
    assert "sample" in script


BASH = """
source {script}
complete_it() {{
    COMP_WORDS=("$@"); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMPREPLY=()
    _shtab_raymirror; echo "${{COMPREPLY[@]}}"
}}
complete_it raymirror pau
complete_it raymirror cluster ''
complete_it raymirror cluster up --sam
complete_it raymirror run mm
"""


@pytest.mark.local
def test_bash_completes_commands_options_and_files(tmp_path: Path) -> None:
    (tmp_path / "mm2.properties").touch()
    script = tmp_path / "raymirror.bash"
    script.write_text(completion.script("bash"))
    done = subprocess.run(
        ["bash", "-c", BASH.format(script=script)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        cwd=tmp_path,
    )
    assert done.stdout.splitlines() == ["pause", "up down status", "--sample", "mm2.properties"], done.stderr


def test_a_word_is_completed_without_python() -> None:
    assert "raymirror completion" not in completion.script("bash")


@pytest.mark.parametrize("variable", ["NO_COLOR", "TERM"])
def test_colours_are_taken_away(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn() -> str:
        out = io.StringIO()
        Console(file=out, force_terminal=True).print(state_text("failed"))
        return out.getvalue()

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1;31m" in drawn()
    monkeypatch.setenv(variable, "dumb")
    assert "31m" not in drawn()


def test_every_state_of_a_partition_that_lasts_has_a_colour() -> None:
    assert {state.value for state in State} - STATE.keys() == {"acquiring"}
    assert SEVERITY.keys() == {"info", "warning", "error"}


def test_a_pipe_gets_whole_lines_without_colours(capsys: pytest.CaptureFixture[str]) -> None:
    print_severity("error", "x" * 500)
    assert capsys.readouterr().out == "x" * 500 + "\n"


@pytest.mark.parametrize(
    ("groups", "short", "line"),
    [
        (0, 0, "no consumer groups"),
        (1, 0, "1 consumer group: 1 exactly as on the source, 0 not"),
        (60, 52, "60 consumer groups: 8 exactly as on the source, 52 not"),
    ],
)
def test_groups_are_counted_in_plain_words(groups: int, short: int, line: str) -> None:
    assert groups_line(groups, short) == line


@pytest.mark.parametrize("command", first_mirror_commands())
def test_a_command_of_the_first_mirror_parses(command: str) -> None:
    program, *words = shlex.split(command)
    assert program == "raymirror"
    args: Any = PARSER.parse_args(words)
    assert getattr(args, "config", None) in (None, Path("mm2.properties"))


def test_the_first_mirrors_files_are_there() -> None:
    links = re.findall(r"\]\(([^)#]+)", first_mirror())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
    assert len(first_mirror_commands()) > 10
    assert os.access(Path(sys.executable).parent / "raymirror", os.X_OK)
