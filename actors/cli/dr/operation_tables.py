"""Prints operations: their steps with the time of each, what was lost, groups, and what came behind the fence."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from rich.table import Table

from actors.cli.dr.failovers import FailoverRow
from actors.observability.colours import stdout_console
from actors.observability.instants import clock_text
from actors.observability.tables import plain_table
from engine.services.dr.operation_service import StoredOperations
from engine.services.dr.switchover.group_starts import GROUP_START_NOTES
from engine.services.dr.switchover.reversal import GROWN_NOTES
from engine.services.dr.switchover.steps import GROUP_NOTES, LEFT_OUT_NOTES
from engine.services.quarantine import LeftOutRow
from policies.dr.group_places import PlaceReason
from policies.dr.operation_commands import goes_on, takes_back
from policies.dr.operation_steps import StepRule
from policies.dr.operations import DrOperation, StepState

_TOLD_NOTES = (GROUP_NOTES, LEFT_OUT_NOTES, GROWN_NOTES, GROUP_START_NOTES)
_ROWS = 50
_TOLD_BELOW = "reverse_start"
"""A sentence among the facts; it stands below the table."""


def as_json(operation: DrOperation, stored: StoredOperations) -> dict[str, object]:
    """Return an operation with what follows from it, and the rows that it has stored for people."""
    steps = [{**msgspec.to_builtins(one), "seconds": one.seconds} for one in operation.steps]
    rows = {name: [msgspec.json.decode(row) for row in stored.notes(operation, name)] for name in _TOLD_NOTES}
    found = {**msgspec.to_builtins(operation), "flow": operation.flow, "seconds": operation.seconds, "steps": steps}
    return found | {"can_return": operation.can_return, "rows": rows}


def show_operation(operation: DrOperation, stored: StoredOperations) -> None:
    """Print one operation."""
    print(
        f"{operation.kind} {operation.id} of {operation.flow}: {operation.state.value}, last driven by {operation.who}"
    )
    if operation.why:
        print(f"because: {operation.why}")
    stdout_console().print(step_table(operation))
    failed = [one for one in operation.steps if one.state is StepState.FAILED]
    for one in failed:
        print(f"step {one.name} has failed: {one.why}")
    for left_out in stored.notes(operation, LEFT_OUT_NOTES)[:_ROWS]:
        print(f"left behind: {msgspec.json.decode(left_out, type=LeftOutRow)}")
    for group in stored.notes(operation, GROUP_NOTES)[:_ROWS]:
        row = msgspec.json.decode(group)
        if text := _unequal(row):
            print(f"group {row['group']} is not equal: {text}")
    for grown in stored.notes(operation, GROWN_NOTES)[:_ROWS]:
        row = msgspec.json.decode(grown)
        where = f"{row['topic']}-{row['partition']}"
        print(f"written behind the fence: {where}, offsets {row['drained_to']} to {row['end'] - 1}")
    for start in stored.notes(operation, GROUP_START_NOTES)[:_ROWS]:
        row = msgspec.json.decode(start)
        if row["why"]:
            where = f" in {row['topic']}-{row['partition']}" if row["topic"] else ""
            print(f"group {row['group']} has no start offset{where}: {row['why']}")
    if not operation.has_ended:
        kind, flow = operation.kind, operation.flow
        back = f", or take it back: {takes_back(kind, flow)}" if operation.can_return else ""
        print(f"it has not ended; if no command drives it now: {goes_on(kind, flow)}{back}")


def _unequal(row: Mapping[str, Any]) -> str:
    """Say why a group is not equal, as a switchover or a failback has stored it; empty if it is equal."""
    if "topic" not in row:
        return str(row["why"])
    why = row["why"] or ("" if row["reason"] == PlaceReason.EXACT.value else row["reason"])
    return f"{row['topic']}-{row['partition']}: {why}" if why else ""


def step_table(operation: DrOperation) -> Table:
    """Draw the steps, each with its time and its facts."""
    table = plain_table(["step", "state"], ["seconds", "tries"], ["result"])
    for rule in operation.rules or ():
        one = operation.step(rule.name)
        name = f"{rule.name} (no return)" if rule.ends_return else rule.name
        if one is None:
            table.add_row(name, "-", "", "", rule.does)
            continue
        facts = ", ".join(f"{key} {value}" for key, value in one.facts.items() if value != "" and key != _TOLD_BELOW)
        table.add_row(name, one.state.value, f"{one.seconds:.1f}" if one.ended_ms >= 0 else "", str(one.tries), facts)
    return table


def show_history(operations: Sequence[DrOperation], failovers: Sequence[FailoverRow] = ()) -> None:
    """Print operations and failovers, the oldest first."""
    table = plain_table(["operation", "kind", "flow", "state", "began"], ["seconds"], ["last step"])
    rows = [(one.began_ms, _operation_row(one)) for one in operations]
    rows += [(one.at_ms, _failover_row(one)) for one in failovers]
    for _, row in sorted(rows, key=lambda row: row[0]):
        table.add_row(*row)
    stdout_console().print(table)


def _operation_row(one: DrOperation) -> tuple[str, ...]:
    last = one.last
    seconds = f"{one.seconds:.1f}" if one.has_ended else ""
    step = "" if last is None else f"{last.name} ({last.state.value})"
    return one.id, one.kind, one.flow, one.state.value, clock_text(one.began_ms), seconds, step


def _failover_row(one: FailoverRow) -> tuple[str, ...]:
    return "-", "failover", one.flow, "stands" if one.stands else "ended", clock_text(one.at_ms), "", one.text


def print_reasons(reasons: Iterable[tuple[str, str]], left: Collection[tuple[str, str]]) -> None:
    """Print what is in the way; what is not `left` was accepted by the operator."""
    for name, why in reasons:
        print(f"{name}: {why}" + (" (ignored)" if (name, why) not in left else ""))


def print_rules(rules: Iterable[StepRule]) -> None:
    """Print the steps of an operation, with its point of no return."""
    for at, rule in enumerate(rules, 1):
        print(f"{at}. {rule.name}: {rule.does}" + ("; from here on there is no way back" if rule.ends_return else ""))
