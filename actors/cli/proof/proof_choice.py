"""Decides where `verify` proves a flow: a small copy in the command's own process, a large one on Spark."""

from typing import Literal, NamedTuple, get_args

from actors.cli.common.questions import BadQuestion
from engine.jobs.proof.model import Where
from policies.dr.advice import SPARK

Wish = Literal["auto", "always", "never"]
WISHES: tuple[Wish, ...] = get_args(Wish)
MOST_OFFSETS = 200_000
"""Most source offsets that `auto` reads without Spark: reading them takes no longer than a start of Spark."""
MOST_BYTES = 256 * 1024 * 1024
"""Most bytes of both sides, as sent, that `auto` reads without Spark; their number is known only while it reads."""


class Choice(NamedTuple):
    """The place where a flow is proven, and the reason."""

    where: Where
    why: str


def before_look(wish: Wish, asks_for_spark: str, lacks: str) -> Choice | None:
    """Choose before the size of the copy is known; None if its size decides. Raises BadQuestion.

    `asks_for_spark`: an argument that only Spark can satisfy. `lacks`: what this process lacks. Both may be empty.
    """
    if wish == "always":
        return Choice("spark", "--spark always")
    if wish == "never":
        if asks_for_spark:
            raise BadQuestion(f"{SPARK.given('never')}, but {asks_for_spark} needs Spark", "leave one of them out")
        if lacks:
            raise BadQuestion(f"{SPARK.given('never')}, but {lacks}", f"leave {SPARK} out, or install a newer Python")
        return Choice("process", "--spark never")
    if asks_for_spark:
        return Choice("spark", f"{asks_for_spark} needs it")
    return Choice("spark", lacks) if lacks else None


def by_size(offsets: int) -> Choice:
    if offsets > MOST_OFFSETS:
        return Choice("spark", f"{offsets:,} source offsets are more than {MOST_OFFSETS:,}")
    return Choice("process", f"{offsets:,} source offsets, at most {MOST_OFFSETS:,}")
