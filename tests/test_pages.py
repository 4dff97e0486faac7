"""Pages name only files, commands and options that exist, and texts of the programs too."""

import argparse
import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from actors.cli.main import COMMANDS, build_parser

ROOT = Path(__file__).parent.parent
BELOW = ("", "engine", "actors", "policies", "deploy", "bench", "bench/recovery", "tests")
LIST = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
NAMES = subprocess.run(LIST, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
PAGES = [ROOT / name for name in NAMES if name != "CHANGELOG.md" and not name.startswith("bench/results/")]
SHOWN = [page for page in PAGES if page.relative_to(ROOT).parts[0] != "bench"]
"""The pages that show command lines to users."""
SOURCES = sorted(one for name in ("actors", "engine", "policies") for one in (ROOT / name).rglob("*.py"))
_PATH = re.compile(r"`([\w./-]+\.py)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_files_that_exist(page: Path) -> None:
    named = _PATH.findall(page.read_text())
    folders = [ROOT / one for one in BELOW] + [page.parent]
    assert [name for name in named if not any((folder / name).exists() for folder in folders)] == []


def test_there_are_pages() -> None:
    assert len(PAGES) > 20


# --- commands --------------------------------------------------------------------------------------------------------

_BLOCK = re.compile(r"^ *```\w*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_IN_BLOCK = re.compile(r"^[ >$]*(raymirror [^\n#]+)", re.MULTILINE)
_IN_PROSE = re.compile(r"`(raymirror [^`]+)`")
_LINE = re.compile(r"raymirror ([a-z][a-z-]*)((?: (?:--?[a-z][\w-]*|[a-z][a-z-]*|'[^']*'|[A-Z{][\w.=:>{}-]*))*)")
"""A command in a text: it ends before the first word that can be no word of it."""
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


@cache
def commands() -> argparse.ArgumentParser:
    """Return the parser with the arguments of all commands."""
    return build_parser(*COMMANDS)


def actions_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the commands of a parser, or the actions of a command."""
    found = [one.choices for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    return dict(found[0]) if found else {}


def wrong_in(line: str) -> Iterator[str]:
    """Yield what a command line names that does not exist: a command, an action, options.

    What follows a ` | ` is another program, or another action of a usage line.
    """
    parser, words = commands(), line.split(" | ")[0].split()[1:]
    while words and (actions := actions_of(parser)):
        word = words.pop(0)
        if not re.fullmatch(r"[a-z][a-z-]*", word):
            break
        if word not in actions:
            yield word
            return
        parser = actions[word]
    yield from (one for one in _OPTION.findall(" ".join(words)) if one not in parser._option_string_actions)


def lines_of(page: str) -> Iterator[str]:
    """Yield the command lines that a page shows as code."""
    for block in _BLOCK.findall(page):
        yield from _IN_BLOCK.findall(block.replace("\\\n", " "))
    yield from _IN_PROSE.findall(_BLOCK.sub("", page))


def texts_of(source: Path) -> Iterator[str]:
    """Yield the texts of a module; what a text is formatted with is a name in braces."""
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "{x}" for one in node.values)


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_commands_and_options_that_exist(page: Path) -> None:
    wrong = {line: found for line in lines_of(page.read_text()) if (found := list(wrong_in(line)))}
    assert wrong == {}


def test_texts_name_options_that_exist() -> None:
    wrong = {
        (str(source.relative_to(ROOT)), one[0]): found
        for source in SOURCES
        for text in texts_of(source)
        for one in _LINE.finditer(text)
        if one[1] in COMMANDS and (found := [word for word in wrong_in(one[0]) if word.startswith("--")])
    }
    assert wrong == {}


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("raymirror status --lanes", ["--lanes"]),
        ("raymirror lag --behind", []),
        ("raymirror dr switchover 'A->B' [--dry-run] [--nothing]", ["--nothing"]),
        ("raymirror dr preveiw", ["preveiw"]),
        ("raymirror statsu", ["statsu"]),
    ],
)
def test_what_does_not_exist_is_found(line: str, wrong: list[str]) -> None:
    assert list(wrong_in(line)) == wrong
