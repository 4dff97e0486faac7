"""Many things cut into as many as one request takes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def parts(items: Sequence[T], size: int) -> Iterator[list[T]]:
    """Give them in order, so many at a time."""
    return (list(items[at : at + size]) for at in range(0, len(items), size))


def parts_by_weight(items: Iterable[T], weigh: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Give them in order, so many at a time as weigh no more together, but at least one."""
    part: list[T] = []
    weight = 0
    for item in items:
        more = weigh(item)
        if part and weight + more > most:
            yield part
            part, weight = [], 0
        part.append(item)
        weight += more
    if part:
        yield part
