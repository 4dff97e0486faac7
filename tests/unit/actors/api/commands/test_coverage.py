"""Every command of the command line has a row: routes that there are, or the reason why it has none."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.api.commands.coverage import COVERAGE, CommandRow, coverage_table
from actors.api.table import API_ROUTES
from actors.cli.main import COMMANDS, build_parser

DOCS = (Path(__file__).parents[5] / "docs" / "api.md").read_text()
ROUTES = {f"{route.method} {route.template}" for route in API_ROUTES}


def commands(parser: argparse.ArgumentParser, name: str = "") -> Iterator[str]:
    """Name the commands that a parser has, those with sub-commands by these."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield name
    for action in below:
        for part, one in action.choices.items():
            yield from commands(one, f"{name} {part}".strip())


def test_every_command_has_one_row_and_no_row_is_of_a_command_that_is_gone() -> None:
    there = list(commands(build_parser(*COMMANDS)))
    assert len(there) > 40
    assert sorted(row.command for row in COVERAGE) == sorted(there)


@pytest.mark.parametrize("row", COVERAGE, ids=lambda row: str(row.command))
def test_a_row_has_routes_that_there_are_or_says_why_not(row: CommandRow) -> None:
    assert set(row.routes) <= ROUTES
    assert row.routes or row.without


def test_every_route_is_of_a_command_or_of_the_interface_alone() -> None:
    alone = {"/api/v1/me", "/api/v1/flows", "/api/v1/flows/{flow}/groups", "/api/v1/flows/{flow}/settings"}
    of_runs = {"/api/v1/flows/{flow}/runs", "/api/v1/flows/{flow}/runs/{run}"}
    named = {route for row in COVERAGE for route in row.routes}
    assert {route.partition(" ")[2] for route in ROUTES - named} == alone | of_runs


def test_the_page_has_the_table() -> None:
    found = re.search(r"## Commands and their routes\n(.*?)\n## ", DOCS, re.DOTALL)
    assert found is not None
    assert coverage_table() in found[1], "put in what actors.api.commands.coverage.coverage_table() returns"


def test_every_route_is_in_the_list_of_the_page() -> None:
    paths = {route.partition(" ")[2].replace("{flow}", "F").replace("{run}", "RUN") for route in ROUTES}
    shown = DOCS.partition("## Routes")[2].partition("\nLists take")[0]
    named = re.findall(r"`(?:GET |POST |PATCH |DELETE )?(?:/api/v1|\.\.\.)([^`?]*)`", shown)
    assert [path for path in sorted(paths) if not any(path.endswith(one) for one in named)] == []
