"""Many things cut into as many as one request takes."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def parts(items: Sequence[T], size: int) -> Iterator[list[T]]:
    """Give them in order, so many at a time."""
    return (list(items[at : at + size]) for at in range(0, len(items), size))
