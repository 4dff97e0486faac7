"""Splits many items into parts that fit into one request."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def parts(items: Sequence[T], size: int) -> Iterator[list[T]]:
    """Yield the items in order, in lists of at most `size`."""
    return (list(items[at : at + size]) for at in range(0, len(items), size))


def parts_by_weight(items: Iterable[T], weigh: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Yield the items in order, in lists of at least one item that together weigh at most `most`."""
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
