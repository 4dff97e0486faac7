"""Measures how long each step of a failover takes: together they are the recovery time of the flow."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum

import msgspec

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


class StepTime(msgspec.Struct, frozen=True):
    """How long a step took, in seconds."""

    step: FailoverStep
    seconds: float


class StepTimes:
    """The times of the steps of one failover, in their order."""

    def __init__(self) -> None:
        self._done: list[StepTime] = []

    @property
    def done(self) -> tuple[StepTime, ...]:
        """The finished steps."""
        return tuple(self._done)

    @contextmanager
    def of(self, step: FailoverStep) -> Iterator[None]:
        """Measure the block; a step that fails is no finished step."""
        began_s = now_s()
        yield
        self._done.append(StepTime(step, now_s() - began_s))


def steps_text(steps: Sequence[StepTime]) -> str:
    """Say how long the failover took, and each of its steps."""
    each = ", ".join(f"{one.step.value} {one.seconds:.1f} s" for one in steps)
    return f"it took {sum(one.seconds for one in steps):.1f} s: {each}"
