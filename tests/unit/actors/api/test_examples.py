"""The examples of docs/api.md are what the types say: every field is there, and no other."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.api import entities, orders, runs
from actors.api.commands import pages

BODIES = {
    name: one
    for module in (entities, orders, runs, pages)
    for name, one in vars(module).items()
    if isinstance(one, type)
    and issubclass(one, entities.ApiStruct)
    and one not in (entities.ApiStruct, orders.FlowOrder, orders.FencedOrder, orders.RecordsOrder, orders.GroupOrder)
}
DOCS = (Path(__file__).parents[4] / "docs" / "api.md").read_text()
EXAMPLES = re.findall(r"```json (\w+)\n(.*?)```", DOCS, re.DOTALL)


@pytest.mark.parametrize(("name", "text"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_example_has_every_field_and_no_other(name: str, text: str) -> None:
    shown = msgspec.json.decode(text)

    read = msgspec.convert(shown, BODIES[name], strict=False)

    assert _without_whole_numbers(msgspec.to_builtins(read)) == _without_whole_numbers(shown)


def test_every_type_is_in_an_example() -> None:
    named = {name for name, _ in EXAMPLES}

    assert BODIES.keys() <= named | _types_within(named)


def _types_within(names: set[str]) -> set[str]:
    """Name the types that only occur within the given ones."""
    _, components = msgspec.json.schema_components([BODIES[name] for name in names])
    text = msgspec.json.encode(list(components.values())).decode()
    return set(re.findall(r"#/\$defs/(\w+)", text))


def _without_whole_numbers(value: Any) -> Any:
    """Return a value whose numbers are floats: 5 and 5.0 are one number in JSON."""
    if isinstance(value, dict):
        return {key: _without_whole_numbers(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_whole_numbers(one) for one in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
