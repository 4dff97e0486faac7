"""Lists what does each step of a failback; `policies/dr/operation_steps.py` has their table."""

from engine.flow.failback.anew_steps import MakeAnew
from engine.flow.failback.copy_steps import LateCopy, NewCopy, Turn
from engine.flow.failback.first_steps import Check, Count, Export, Fenced, Retention
from engine.flow.failback.last_steps import Close, MoveGroups
from engine.flow.failback.step import FailbackStep
from engine.flow.failback.world import FailbackWorld
from policies.dr.failback import FailbackChoice
from policies.dr.operation_steps import FAILBACKS


def failback_steps(world: FailbackWorld, choice: FailbackChoice = FailbackChoice.KEEP) -> dict[str, FailbackStep]:
    """Return what does each step, by its name in the table of a choice."""
    anew = MakeAnew(world, choice)
    made: dict[str, FailbackStep] = {
        "check": Check(world),
        "fence": Fenced(world),
        "retention": Retention(world),
        "count": Count(world),
        "export": Export(world),
        "late-copy": LateCopy(world),
        "make-anew": anew,
        "turn": Turn(world, LateCopy(world) if choice is FailbackChoice.KEEP else anew),
        "new-copy": NewCopy(world),
        "groups": MoveGroups(world),
        "close": Close(world),
    }
    return {rule.name: made[rule.name] for rule in FAILBACKS[choice]}
