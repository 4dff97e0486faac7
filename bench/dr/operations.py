"""The operations of the matrix: their commands, the moments of their kills, and what may be killed in them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from actors.cli.dr.drill import DOES
from bench.dr.commands import Outcome
from bench.dr.kills import EVERY, OF_MIRROR, OF_SOURCE, OF_TARGET, Moment, Victim
from bench.dr.world import DEFAULT, IDENTITY, World
from engine.core.reports.drill_report import DrillStep
from policies.dr.operation_steps import FAILBACK, SWITCHOVER, StepRule

Words = tuple[str, ...]
LOADS = ("idle", "busy")
FAILOVER_S = 6
"""Kills of a failover come in the first seconds of the command: it does not say which step it begins."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation. `begin`: its command; `again`: what goes on with it after a kill; `kind`: as it is stored, empty
    if it is not. `done`: exit codes of an operation that has ended.
    """

    name: str
    begin: Callable[[World], Words]
    again: Callable[[World], Words]
    moments: tuple[Moment, ...]
    victims: tuple[Victim, ...]
    kind: str = ""
    done: tuple[int, ...] = (0,)
    policies: tuple[str, ...] = (IDENTITY, DEFAULT)
    once: bool = False
    """Whether each round needs a world of its own."""


def _of_steps(rules: tuple[StepRule, ...]) -> tuple[Moment, ...]:
    return tuple(Moment(rule.name, f", {rule.name}: ") for rule in rules)


def _switchover(world: World) -> Words:
    return "dr", "switchover", world.flow, "--config", str(world.config), "--timeout", "120", "--yes", "--json"


def _resume(world: World) -> Words:
    return "dr", "resume", world.flow, "--config", str(world.config), "--json"


def _failover(world: World) -> Words:
    return "failover", world.flow, "--config", str(world.config), "--timeout", "10", "--json"


def _drill(world: World) -> Words:
    return "dr", "drill", world.flow, "--config", str(world.config), "--json"


def _failback(choice: str) -> Callable[[World], Words]:
    def words(world: World) -> Words:
        export = str(world.folder / "export")
        named = ("--config", str(world.config), "--choice", choice, "--export", export)
        return "dr", "failback", world.flow, *named, "--fenced-by-hand", "--yes", "--json"

    return words


def _failback_of(choice: str) -> Operation:
    return Operation(
        name=f"failback-{choice}",
        begin=_failback(choice),
        again=_failback(choice),
        moments=_of_steps(FAILBACK),
        victims=(Victim.DRIVER, *OF_SOURCE, *OF_TARGET),  # no mirror runs
        kind="failback",
        done=(0, 4),
        policies=(IDENTITY,),
        once=choice != "keep",
    )


OPERATIONS: Mapping[str, Operation] = {
    one.name: one
    for one in (
        Operation(
            name="switchover",
            begin=_switchover,
            again=_resume,
            moments=_of_steps(SWITCHOVER),
            victims=EVERY,
            kind="switchover",
        ),
        Operation(
            name="failover",
            begin=_failover,
            again=_failover,
            moments=tuple(Moment(f"{second} s", after_s=float(second)) for second in range(FAILOVER_S)),
            victims=(Victim.DRIVER, *OF_MIRROR, *OF_TARGET),  # the source is away
            done=(0, 4),
            once=True,
        ),
        _failback_of("keep"),
        Operation(
            name="drill",
            begin=_drill,
            again=_drill,
            moments=tuple(Moment(step.value, DOES[step]) for step in DrillStep),
            victims=EVERY,
            done=(0, 4),
        ),
    )
}


def cells() -> dict[str, tuple[Operation, str, str]]:
    """Return every cell by its name: the operation, the policy, the load."""
    return {
        f"{one.name}-{policy}-{load}": (one, policy, load)
        for one in OPERATIONS.values()
        for policy in one.policies
        for load in LOADS
    }


def answer_of(outcome: Outcome) -> Any:
    """Return the JSON object that a command has printed; empty without one."""
    return json.loads(outcome.out) if outcome.out.strip() else {}
