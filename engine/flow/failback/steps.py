"""Lists what does each step of a failback; `policies/dr/operation_steps.py` has their table."""

from engine.flow.failback.copy_steps import LateCopy, NewCopy, Turn
from engine.flow.failback.first_steps import Check, Count, Export, Fenced, Retention
from engine.flow.failback.last_steps import Close, MoveGroups
from engine.flow.failback.step import FailbackStep, Patiently
from engine.flow.failback.world import FailbackWorld


def failback_steps(world: FailbackWorld) -> dict[str, Patiently]:
    """Return what does each step, by its name in the table."""
    return {name: Patiently(step) for name, step in _steps(world).items()}


def _steps(world: FailbackWorld) -> dict[str, FailbackStep]:
    return {
        "check": Check(world),
        "fence": Fenced(world),
        "retention": Retention(world),
        "count": Count(world),
        "export": Export(world),
        "late-copy": LateCopy(world),
        "turn": Turn(world),
        "new-copy": NewCopy(world),
        "groups": MoveGroups(world),
        "close": Close(world),
    }
