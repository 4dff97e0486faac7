"""The tables of steps: every one is well formed, and what is not is named."""

from collections.abc import Iterator

import pytest

from policies.dr.failback import FailbackChoice
from policies.dr.operation_steps import (
    BOTH,
    FAILBACK,
    FAILBACKS,
    TABLES,
    OperationKind,
    StepRule,
    steps_of,
)


def table_faults(steps: tuple[StepRule, ...]) -> Iterator[str]:
    """Yield what is wrong with a table."""
    names = [step.name for step in steps]
    if len(set(names)) < len(names):
        yield f"two steps have one name: {names}"
    final = [at for at, step in enumerate(steps) if step.ends_return]
    if len(final) > 1:
        yield f"there are {len(final)} points of no return"
    for step in steps:
        if bool(step.undo) != bool(step.undo_needs):
            yield f"{step.name}: what undoes it and what that needs must both be named, or neither"
    for step in steps[final[0] :] if final else ():
        if step.undo:
            yield f"{step.name} names what undoes it, but it is behind the point of no return"


def rule(name: str, **changes: object) -> StepRule:
    return StepRule(name=name, does="something", **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", TABLES)
def test_every_table_is_well_formed(kind: OperationKind) -> None:
    assert list(table_faults(TABLES[kind])) == []


@pytest.mark.parametrize("choice", FailbackChoice)
def test_a_failback_has_the_steps_of_its_choice(choice: FailbackChoice) -> None:
    steps = steps_of("failback", {"choice": choice.value})
    assert list(table_faults(steps)) == []
    assert steps == FAILBACKS[choice]
    last = {"keep": "late-copy", "append-to-target": "late-copy", "discard": "make-anew"}
    assert [one.name for one in steps if one.ends_return] == [last[choice.value]]


def test_an_unknown_choice_has_no_steps_and_no_choice_is_that_of_an_earlier_version() -> None:
    assert steps_of("failback", {"choice": "merge"}) == ()
    assert steps_of("failback", {}) == FAILBACK
    assert steps_of("other", {}) == ()


@pytest.mark.parametrize(
    ("steps", "fault"),
    [
        ((rule("a"), rule("a")), "one name"),
        ((rule("a", ends_return=True), rule("b", ends_return=True)), "2 points of no return"),
        ((rule("a", undo="back"),), "a: what undoes it"),
        ((rule("a", undo_needs=BOTH),), "a: what undoes it"),
        ((rule("a", ends_return=True), rule("b", undo="back", undo_needs=BOTH)), "b names what undoes it"),
    ],
)
def test_a_fault_of_a_table_is_named(steps: tuple[StepRule, ...], fault: str) -> None:
    (found,) = table_faults(steps)
    assert fault in found


def test_a_switchover_names_its_point_of_no_return() -> None:
    assert [one.name for one in TABLES[OperationKind.SWITCHOVER] if one.ends_return] == ["reverse"]
