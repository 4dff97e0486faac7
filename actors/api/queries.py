"""Reads the queries of lists: which part, in which order, since when."""

import unicodedata
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from actors.observability.instants import BadInstant, instant_ms
from actors.rest.exchange import HttpCall, HttpRefusal
from actors.rest.target import CountParameter, QueryParameter

USUAL_LIMIT: Final = 100
MOST: Final = 1000
MOST_WORD: Final = 500
"""Characters of a word that a command takes."""
MOST_WORDS: Final = 100
OFFSET: Final = CountParameter(name="offset", meaning="how many to leave out", usual=0)
LIMIT: Final = CountParameter(
    name="limit", meaning="how many to return; 0: only what is said of the whole list", usual=USUAL_LIMIT, most=MOST
)
PAGE_QUERY: Final = (OFFSET, LIMIT)
SINCE: Final = QueryParameter(name="since", meaning="`10m`, `2h`, an instant, or Unix ms; only what is not older")

_Item = TypeVar("_Item")


class ListPart(msgspec.Struct, frozen=True):
    """The part of a list that is asked for."""

    offset: int
    limit: int

    def of(self, items: Sequence[_Item]) -> Sequence[_Item]:
        """Return the part of a list."""
        return items[self.offset : self.offset + self.limit]


def part_of(call: HttpCall) -> ListPart:
    """Read `offset` and `limit`. Raises HttpRefusal (400)."""
    return ListPart(OFFSET.read(call), LIMIT.read(call))


def text(call: HttpCall, name: str) -> str:
    """Return a value of the query, empty if it is not given."""
    return call.query.get(name, ("",))[0]


def word(call: HttpCall, name: str) -> str:
    """Return a value of the query that a command takes, empty if it is not given. Raises HttpRefusal (400)."""
    return next(iter(words(call, name)), "")


def words(call: HttpCall, name: str) -> tuple[str, ...]:
    """Return all values of a name of the query; a command takes them. Raises HttpRefusal (400).

    No word of a command may have a NUL, and a name of Kafka has no other control characters either.
    """
    given = tuple(one for one in call.query.get(name, ()) if one)
    if len(given) > MOST_WORDS:
        raise HttpRefusal(400, f"{name} may be given {MOST_WORDS} times")
    for one in given:
        if len(one) > MOST_WORD or any(unicodedata.category(char) == "Cc" for char in one):
            raise HttpRefusal(400, f"{name} may have {MOST_WORD} characters, and no control characters")
    return given


def since_of(call: HttpCall, now_ms: int, usual: str = "") -> int:
    """Read `since` as Unix ms; 0 if neither it nor `usual` is given. Raises HttpRefusal (400)."""
    given = SINCE.given(call) or usual
    if not given:
        return 0
    if given.isascii() and given.isdecimal() and len(given) <= 15:
        return int(given)
    try:
        return instant_ms(given, now_ms)
    except (BadInstant, OverflowError) as bad:
        raise HttpRefusal(400, f"since={bad}, or Unix ms") from None
