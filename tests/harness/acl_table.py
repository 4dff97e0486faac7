"""ACLs of every kind, copied by MM2 and by raymirror: every operation, allowed and denied, literal and prefixed."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import product

from policies.sync.acl_sync import Binding, Operation, Pattern, Permission, Resource
from tests.harness.kafka_admin import KafkaAdmin

TOPIC = "table-acls"
PREFIX, GROUP = "table-a", "table-group"
_NAMES = {
    (Resource.TOPIC, Pattern.LITERAL): TOPIC,
    (Resource.TOPIC, Pattern.PREFIXED): PREFIX,
    (Resource.GROUP, Pattern.LITERAL): GROUP,
}


def driven(admin: KafkaAdmin) -> list[Binding]:
    """Add a binding of each kind that the broker takes, each for a principal of its own; return them."""
    return [binding for binding in _kinds() if admin.takes_acl(binding)]


def _kinds() -> Iterator[Binding]:
    number = 0
    for (resource, pattern), name in [*_NAMES.items(), ((Resource.TOPIC, Pattern.LITERAL), "*")]:
        for permission, operation in product(Permission, Operation):
            number += 1
            who = f"User:u{number:03}"
            yield Binding(int(resource), name, int(pattern), who, "*", int(operation), int(permission))


def outcome(source: Binding, target: Iterable[Binding], alias: str) -> str:
    """Say what became of a binding under an alias: its name, pattern and operation there, or nothing."""
    found = [one for one in target if one.principal == source.principal and _is_of(one, alias)]
    if not found:
        return "nothing"
    (one,) = found
    pattern = "prefix " if one.pattern == Pattern.PREFIXED else ""
    name = one.name.replace(f"{alias}.", "A.")
    kept = one.operation == source.operation and one.permission == source.permission
    return f"{pattern}`{name}`" + (
        "" if kept else f", {Permission(one.permission).name} {Operation(one.operation).name}"
    )


def _is_of(binding: Binding, alias: str) -> bool:
    return binding.name.startswith(f"{alias}.") or binding.resource == Resource.GROUP


Column = tuple[str, set[Binding]]
"""An alias, and what the target had when it was done."""


def render(source: Iterable[Binding], columns: Mapping[str, Column]) -> str:
    """Draw the table: a row for each kind of binding and outcome, its operations together; columns by title."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for one in source:
        where = "prefix " if one.pattern == Pattern.PREFIXED else ""
        kind = f"{Resource(one.resource).name.lower()} {where}`{one.name}`"
        outcomes = tuple(outcome(one, target, alias) for alias, target in columns.values())
        row = (Permission(one.permission).name, kind, *outcomes)
        rows.setdefault(row, []).append(Operation(one.operation).name)
    head = f"| on the source | operations | {' | '.join(columns)} |\n| --- | --- |{' --- |' * len(columns)}"
    lines = [
        f"| {permission} on {kind} | {', '.join(operations)} | {' | '.join(outcomes)} |"
        for (permission, kind, *outcomes), operations in rows.items()
    ]
    return "\n".join([head, *lines])
