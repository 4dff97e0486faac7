"""Says what is in the way of an operation and what its steps are, and asks the operator before it begins."""

import sys
from collections.abc import Collection, Iterable

from actors.cli.common.questions import BadQuestion
from policies.dr.operation_steps import StepRule
from policies.model import FlowName


def confirm(flow: FlowName, what: str, *, acts: str, told: Iterable[str]) -> None:
    """Ask the operator to type the flow's name; `acts`: what happens, `told`: the same in lines with the names.

    Raises BadQuestion without a terminal, and if the answer is not the flow's name.
    """
    if not sys.stdin.isatty():
        raise BadQuestion(f"{acts}, and nobody can be asked here", "add --yes")
    print("\n".join(told))
    if input(f"Type {flow} to go on: ").strip() != str(flow):
        raise BadQuestion(f"{what} was not confirmed; nothing was changed", f"type {flow}")


def print_reasons(reasons: Iterable[tuple[str, str]], left: Collection[tuple[str, str]]) -> None:
    """Print what is in the way; what is not `left` was accepted by the operator."""
    for name, why in reasons:
        print(f"{name}: {why}" + (" (ignored)" if (name, why) not in left else ""))


def print_rules(rules: Iterable[StepRule]) -> None:
    """Print the steps of an operation, with its point of no return."""
    for at, rule in enumerate(rules, 1):
        print(f"{at}. {rule.name}: {rule.does}" + ("; from here on there is no way back" if rule.ends_return else ""))
