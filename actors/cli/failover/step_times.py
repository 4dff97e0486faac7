"""Says which step of a failover begins, and measures how long each takes: together they are its recovery time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Final

import msgspec

from actors.cli.common.steps import StartSteps
from actors.model.step_lines import TOLD, StepLine
from engine.base.clock import now_s


class FailoverStep(Enum):
    """A step of a failover, in the order of the steps; the names are stable."""

    CONNECT = "connect"
    TAKE = "take"
    """Take the flow from a mirror that does not run, and wait for a sign of life of that mirror."""
    DRAIN = "drain"
    PAUSE = "pause"
    JUDGE = "judge"
    """Compare what is copied with the ends of the source."""
    GROUPS = "groups"
    TOMBSTONES = "tombstones"
    """Let compacted copies keep tombstones for longer, and lift an earlier fence of the target."""
    STOP = "stop"


_DOES: Final = {
    FailoverStep.CONNECT: "connect to the clusters, and ask whether another operation is open",
    FailoverStep.TAKE: "take the flow from a mirror that does not run",
    FailoverStep.DRAIN: "copy what the source still has",
    FailoverStep.PAUSE: "pause the flow",
    FailoverStep.JUDGE: "compare what is copied with the ends of the source",
    FailoverStep.GROUPS: "place the consumer groups on the target",
    FailoverStep.TOMBSTONES: "let compacted copies keep tombstones for longer, and lift old fences of the target",
    FailoverStep.STOP: "stop the flow for good",
}
ALONE: Final = tuple(step for step in FailoverStep if step not in (FailoverStep.DRAIN, FailoverStep.PAUSE))
"""The steps without a mirror."""
WITH_MIRROR: Final = tuple(step for step in FailoverStep if step is not FailoverStep.TAKE)


class StepTime(msgspec.Struct, frozen=True):
    """How long a step took, in seconds."""

    step: FailoverStep
    seconds: float


class StepTimes:
    """The times of the steps of one failover, in their order. `plan`: all of them; each is printed as it begins."""

    def __init__(self, plan: Sequence[FailoverStep], shown: StartSteps) -> None:
        self._plan, self._shown = tuple(plan), shown
        self._done: list[StepTime] = []

    @property
    def done(self) -> tuple[StepTime, ...]:
        """The finished steps."""
        return tuple(self._done)

    def say(self, text: str) -> None:
        """Print what the step that runs waits for."""
        self._shown.say(f"{TOLD}{text}")

    @contextmanager
    def of(self, step: FailoverStep) -> Iterator[None]:
        """Measure the block; a step that fails is no finished step."""
        began_s = now_s()
        number = self._plan.index(step) + 1
        self._shown.say(str(StepLine(number=number, of=len(self._plan), name=step.value, does=_DOES[step])))
        yield
        self._done.append(StepTime(step, now_s() - began_s))


def steps_text(steps: Sequence[StepTime]) -> str:
    """Say how long the failover took, and each of its steps."""
    each = ", ".join(f"{one.step.value} {one.seconds:.1f} s" for one in steps)
    return f"it took {sum(one.seconds for one in steps):.1f} s: {each}"
