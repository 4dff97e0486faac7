"""The operations of the matrix: their commands, the moments of their kills, and what may be killed in them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from actors.cli.dr.drill import DOES
from actors.cli.failover.step_times import ALONE, WITH_MIRROR
from bench.dr.commands import Outcome
from bench.dr.kills import EVERY, OF_MIRROR, OF_SOURCE, OF_TARGET, Moment, Victim
from bench.dr.world import DEFAULT, IDENTITY, World
from engine.core.reports.drill_report import DrillStep
from policies.dr.failback import FailbackChoice
from policies.dr.operation_steps import FAILBACKS, SWITCHOVER, StepRule

Words = tuple[str, ...]
LOADS = ("idle", "busy")
AGAIN_S = 6
"""Where both directions copy again there are no steps: kills come in the first seconds after the first status."""
_DRAIN_S, _FAILOVER_S = "600", "30"
"""Patience of the commands: a machine that does other work is slow, which says nothing about them."""


class Play(Enum):
    """What a round of an operation does."""

    SWITCHOVER = "switchover"
    FAILOVER = "failover"
    FAILBACK = "failback"
    COPY_AGAIN = "copy-again"
    DRILL = "drill"


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation. `begin`: its command; `again`: what goes on with it after a kill; `kind`: as it is stored, empty
    if it is not. `done`: exit codes of an operation that has ended.
    """

    name: str
    play: Play
    begin: Callable[[World], Words]
    again: Callable[[World], Words]
    moments: tuple[Moment, ...]
    victims: tuple[Victim, ...]
    kind: str = ""
    done: tuple[int, ...] = (0,)
    policies: tuple[str, ...] = (IDENTITY, DEFAULT)
    once: bool = False
    """Whether each round needs a world of its own."""
    alone: bool = False
    """Whether its mirror is dead before it begins."""
    choice: FailbackChoice | None = None


def _said(names: Sequence[str]) -> tuple[Moment, ...]:
    return tuple(Moment(name, f", {name}: ") for name in names)


def _of_steps(rules: tuple[StepRule, ...]) -> tuple[Moment, ...]:
    return _said([rule.name for rule in rules])


def _switchover(world: World) -> Words:
    return "dr", "switchover", world.flow, "--config", str(world.config), "--timeout", _DRAIN_S, "--yes", "--json"


def _resume(world: World) -> Words:
    return "dr", "resume", world.flow, "--config", str(world.config), "--json"


def failover_words(world: World) -> Words:
    """Return the command of a failover."""
    return "failover", world.flow, "--config", str(world.config), "--timeout", _FAILOVER_S, "--json"


def _drill(world: World) -> Words:
    return "dr", "drill", world.flow, "--config", str(world.config), "--timeout", _DRAIN_S, "--json"


def _failback(choice: FailbackChoice) -> Callable[[World], Words]:
    def words(world: World) -> Words:
        named = ("--config", str(world.config), "--choice", choice.value, "--export", str(world.export))
        anew = () if choice is FailbackChoice.KEEP else ("--make-anew",)
        return "dr", "failback", world.flow, *named, *anew, "--fenced-by-hand", "--yes", "--json"

    return words


def _failback_of(choice: FailbackChoice) -> Operation:
    return Operation(
        name=f"failback-{choice.value}",
        play=Play.FAILBACK,
        begin=_failback(choice),
        again=_failback(choice),
        moments=_of_steps(FAILBACKS[choice]),
        victims=(Victim.DRIVER, *OF_SOURCE, *OF_TARGET),  # no mirror runs
        kind="failback",
        done=(0, 4),
        policies=(IDENTITY,),
        once=choice is not FailbackChoice.KEEP,
        choice=choice,
    )


OPERATIONS: Mapping[str, Operation] = {
    one.name: one
    for one in (
        Operation(
            name="switchover",
            play=Play.SWITCHOVER,
            begin=_switchover,
            again=_resume,
            moments=_of_steps(SWITCHOVER),
            victims=EVERY,
            kind="switchover",
        ),
        Operation(
            name="failover",
            play=Play.FAILOVER,
            begin=failover_words,
            again=failover_words,
            moments=_said([step.value for step in WITH_MIRROR]),
            victims=(Victim.DRIVER, *OF_MIRROR, *OF_TARGET),  # the source is away
            done=(0, 4),
            once=True,
        ),
        Operation(
            name="failover-alone",
            play=Play.FAILOVER,
            begin=failover_words,
            again=failover_words,
            moments=_said([step.value for step in ALONE]),
            victims=(Victim.DRIVER, *OF_TARGET),  # the source is away, and the mirror died with it
            done=(0, 4),
            once=True,
            alone=True,
        ),
        *(_failback_of(choice) for choice in FailbackChoice),
        Operation(
            name="copy-again",
            play=Play.COPY_AGAIN,
            begin=failover_words,
            again=failover_words,
            moments=tuple(Moment(f"{second} s", after_s=float(second)) for second in range(AGAIN_S)),
            victims=(*OF_MIRROR, *OF_SOURCE, *OF_TARGET),
            done=(0, 4),
            policies=(DEFAULT,),  # there a failback is refused, because none is needed
            once=True,
        ),
        Operation(
            name="drill",
            play=Play.DRILL,
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
