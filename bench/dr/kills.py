"""Which process a seed kills, at which moment of an operation. Pure."""

import enum
import itertools
import random
from collections.abc import Iterator

import msgspec

MOST_DELAY_S = 0.6
"""A kill comes so long after the moment's line at most: anywhere in the step, or in the next one."""


class Victim(enum.StrEnum):
    """What is killed, or cut off."""

    DRIVER = "driver"
    """The command that drives the operation: SIGKILL."""
    RUN = "run"
    """`raymirror run` with Ray and every actor, as if its machine had died; it is started again."""
    SUPERVISOR = "supervisor"
    METADATA = "metadata"
    COPIER = "copier"
    SOURCE_BROKER = "source-broker"
    """One of three brokers; it is started again."""
    TARGET_BROKER = "target-broker"
    SOURCE_CUT = "source-cut"
    """The mirror and the command do not reach the cluster for three seconds."""
    TARGET_CUT = "target-cut"


OF_MIRROR = (Victim.RUN, Victim.SUPERVISOR, Victim.METADATA, Victim.COPIER)
"""Processes of the mirror."""
OF_SOURCE = (Victim.SOURCE_BROKER, Victim.SOURCE_CUT)
OF_TARGET = (Victim.TARGET_BROKER, Victim.TARGET_CUT)
EVERY = (Victim.DRIVER, *OF_MIRROR, *OF_SOURCE, *OF_TARGET)


class Moment(msgspec.Struct, frozen=True):
    """When: `line`: after the command's standard error has this text; empty: after the start. `after_s`: later than
    that.
    """

    name: str
    line: str = ""
    after_s: float = 0.0


class Kill(msgspec.Struct, frozen=True):
    """One kill: the moment, what, and seconds after the moment."""

    moment: Moment
    victim: Victim
    delay_s: float


def kill_of(cell: str, seed: int, moments: tuple[Moment, ...], victims: tuple[Victim, ...]) -> Kill:
    """Return the kill of a seed: as many seeds as there are pairs of moment and victim have each pair once."""
    pairs = list(itertools.product(moments, victims))
    random.Random(cell).shuffle(pairs)
    moment, victim = pairs[seed % len(pairs)]
    return Kill(moment, victim, round(random.Random(f"{cell} {seed}").uniform(0.0, MOST_DELAY_S), 3))


def seeds_of(text: str) -> Iterator[int]:
    """Yield the seeds that a text names: `0-9,40`. Raises ValueError."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
