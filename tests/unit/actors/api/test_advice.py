"""Advised options and commands are those of the command line and of the routes that start commands."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.api.orders import RULES, words_of
from actors.api.table import API_ROUTES
from actors.api.view import CommandPlace
from actors.cli.main import build_parser
from actors.model.run_kinds import RunKind
from policies.dr import advice
from policies.dr.advice import AdvisedCommand, AdvisedOption

OPTIONS = {name: one for name, one in vars(advice).items() if isinstance(one, AdvisedOption)}
COMMANDS = {name: one for name, one in vars(advice).items() if isinstance(one, AdvisedCommand)}
SENT: dict[str, dict[str, object]] = {
    "choice": {"choice": "discard"},
    "everyone_allowed": {"everyone_allowed": "yes"},
    "fence": {"fence": "none"},
    "group": {"group": "g"},
    "keep_tombstones_days": {"keep_tombstones_days": 3.0},
    "sample": {"sample": 3},
    "spark": {"spark": "never"},
}
"""A value of each field that is neither a flag, a text nor a list of texts."""


def fields(one: AdvisedOption) -> Iterator[tuple[RunKind, Any]]:
    """Yield the orders that have the field of an option, each with a value in it."""
    for kind in RunKind:
        order = RULES[kind].order
        named = {field.name: field.type for field in msgspec.structs.fields(order)}
        if one.field not in named:
            continue
        needed = {"flow": "A->B"} | {name: "t" for name in ("group",) if name in named}
        needed |= {"topics": "t"} if kind is RunKind.MOVE_TOPICS else {}
        value = True if named[one.field] is bool else ["t"] if one.is_list else "t"
        try:
            yield kind, msgspec.convert({**needed, one.field: value, **SENT.get(one.field, {})}, order)
        except msgspec.ValidationError:  # `topics` of another order is a text, or a list
            continue


@pytest.mark.parametrize("one", [one for one in OPTIONS.values() if one.field and not one.in_query], ids=str)
def test_a_field_is_one_of_an_order_and_becomes_the_option(one: AdvisedOption) -> None:
    found = [words_of(kind, order, "/f", CommandPlace()) for kind, order in fields(one)]
    assert found
    if one.option:
        assert any(word.partition("=")[0] == one.option for words in found for word in words)


def test_a_field_of_a_query_is_one_of_a_route() -> None:
    named = {parameter.name for route in API_ROUTES for parameter in route.query}
    assert {one.field for one in OPTIONS.values() if one.in_query} <= named


@pytest.mark.parametrize("one", [one for one in OPTIONS.values() if not one.field], ids=str)
def test_an_option_without_a_field_has_none(one: AdvisedOption) -> None:
    field = one.option.removeprefix("--").replace("-", "_")
    assert not any(field in RULES[kind].order.__struct_fields__ for kind in RunKind)


@pytest.mark.parametrize("one", COMMANDS.values(), ids=lambda one: one.words)
def test_a_command_is_one_and_its_route_too(one: AdvisedCommand) -> None:
    words = one.words.split()
    _, extra = build_parser(words[0]).parse_known_args([*words, "A->B"])  # ends the test if it is none
    assert extra == []
    if one.route:
        routes = {(route.method, route.template.removeprefix("/api/v1/flows/{flow}/")) for route in API_ROUTES}
        assert (one.method, one.route.partition("?")[0]) in routes


SPELLED = {
    ("engine/services/dr/export.py", "--to"),  # no route exports
    ("engine/services/dr/moving.py", "--topics"),  # a pause by pattern
    ("engine/services/dr/switchover/steps.py", "--topics"),  # no route moves producers back
    ("engine/services/dr/switchover/steps.py", "--undo"),
    ("policies/dr/move_clients.py", "--alter"),  # of Kafka's own tool
}
"""Options that a text of these rooms spells itself."""


def test_a_reason_that_may_be_answered_spells_no_option() -> None:
    root = Path(advice.__file__).parents[2]
    rooms = ("policies/dr", "engine/flow", "engine/services")
    files = sorted(file for room in rooms for file in (root / room).rglob("*.py"))
    assert len(files) > 100
    found = {(str(file.relative_to(root)), option) for file in files for option in options_in(file.read_text())}
    assert {one for one in found if not one[0].endswith("advice.py")} == SPELLED


def options_in(source: str) -> Iterator[str]:
    tree = ast.parse(source)
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements:
            yield from re.findall(r"(?<![\w-])--[a-z][a-z-]+", node.value)


def test_a_spelled_option_is_found_and_a_docstring_is_none() -> None:
    assert [*options_in('"""Has --no option."""\nwhy = f"say --fence none, not {1} --now"')] == ["--fence", "--now"]
