"""Where `verify` proves a flow: a small copy in the command's own process, a large one on Spark."""

from typing import Literal, NamedTuple, get_args

from actors.cli.questions import BadQuestion
from engine.jobs.proof_terms import Where

Wish = Literal["auto", "always", "never"]
WISHES: tuple[Wish, ...] = get_args(Wish)
MOST_OFFSETS = 200_000
"""Source offsets that `auto` reads without Spark: they take no longer than the start of Spark."""
MOST_BYTES = 256 * 1024 * 1024
"""Bytes of both sides, as they are sent, that `auto` reads without Spark; they are known only while it reads."""


class Choice(NamedTuple):
    """Where a flow is proven, and why there."""

    where: Where
    why: str


def before_look(wish: Wish, asks_for_spark: str, lacks: str) -> Choice | None:
    """Choose without knowing how large the copy is; None where its size decides. Raises BadQuestion.

    `asks_for_spark` is an argument that only a Spark can satisfy, `lacks` what this process has not; both may be empty.
    """
    if wish == "always":
        return Choice("spark", "--spark always")
    if wish == "never":
        if asks_for_spark:
            raise BadQuestion(f"--spark never, and {asks_for_spark} asks for a Spark", "leave one of them out")
        if lacks:
            raise BadQuestion(f"--spark never, but {lacks}", "leave it out, or install a newer Python")
        return Choice("process", "--spark never")
    if asks_for_spark:
        return Choice("spark", f"{asks_for_spark} asks for it")
    return Choice("spark", lacks) if lacks else None


def by_size(offsets: int) -> Choice:
    """Choose by the source offsets that are to be read."""
    if offsets > MOST_OFFSETS:
        return Choice("spark", f"{offsets:,} source offsets are more than {MOST_OFFSETS:,}")
    return Choice("process", f"{offsets:,} source offsets, at most {MOST_OFFSETS:,}")
