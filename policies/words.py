"""Formats counts and names for messages."""

from collections.abc import Mapping, Sequence

_NAMED = 5


def counted(count: int, one: str) -> str:
    """Format a count with a noun whose plural takes an `s`: `1 topic`, `2,000 topics`."""
    return f"{count:,} {one}" if count == 1 else f"{count:,} {one}s"


def named(names: Sequence[str]) -> str:
    """Name the first of some names, and count the others: `a, b, c, d, e and 2 more`."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def some_of(why: Mapping[str, str]) -> str:
    """Name some subjects and their reasons, and count the others."""
    first = [f"{subject}: {text}" for subject, text in list(why.items())[:_NAMED]]
    more = [f"and {len(why) - _NAMED} more"] if len(why) > _NAMED else []
    return "; ".join([*first, *more])
