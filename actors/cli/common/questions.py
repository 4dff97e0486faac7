"""Arguments that do not fit the configuration, the choice of flows by name, and the question before a change."""

import sys
from collections.abc import Iterable

from engine.base.errors import WrongQuestion
from engine.config.settings import FlowConfig, MirrorConfig
from policies.model import FlowName


class BadQuestion(WrongQuestion):
    """An argument does not fit the configuration: `wrong` says why, `right` what to give instead."""

    def __init__(self, wrong: str, right: str) -> None:
        super().__init__(wrong, right)
        self.wrong, self.right = wrong, right

    def __str__(self) -> str:
        return f"{self.wrong}; {self.right}"


def chosen_flows(config: MirrorConfig, name: str | None) -> tuple[FlowConfig, ...]:
    """Return the flow with this name, or all flows for None. Raises BadQuestion."""
    found = tuple(flow for flow in config.flows if name in (None, str(flow.name)))
    if not found:
        names = ", ".join(repr(str(flow.name)) for flow in config.flows)
        raise BadQuestion(f"there is no flow {name!r}", f"use one of {names}")
    return found


def confirm(flow: FlowName, what: str, *, acts: str, told: Iterable[str]) -> None:
    """Ask the operator to type the flow's name; `acts`: what happens, `told`: the same in lines with the names.

    Raises BadQuestion without a terminal, and if the answer is not the flow's name.
    """
    if not sys.stdin.isatty():
        raise BadQuestion(f"{acts}, and nobody can be asked here", "add --yes")
    print("\n".join(told))
    if input(f"Type {flow} to go on: ").strip() != str(flow):
        raise BadQuestion(f"{what} was not confirmed; nothing was changed", f"type {flow}")
