"""Guesses the meaning of a pattern that matches nothing: quotes, globs, starts of names, mistyped letters."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from policies.keys.likeness import nearest
from policies.patterns import BadPattern, PatternList, literal

_QUOTES = "\"'"
_BARE_STAR = re.compile(r"(?<![.\])}\\])\*")
"""A star as in a file name pattern: as a regular expression it repeats a character, no dot, class or group."""
_FLAGS = re.compile(r"(?:\(\?[a-zA-Z]+\))+")
_NEVER = "(?!)"
_SEPARATORS = re.compile(r"\s*[;\s]\s*")
_MOST_LOOKED_AT, _MOST_TOLD = 200, 20
_ANY_NAME = "? ?"
"""No topic or group has such a name: only a pattern that matches every name matches it."""
_LEAST_WORD = re.compile(r"\w{2}")


class Idle(msgspec.Struct, frozen=True):
    """A pattern that matches no name, and its likely meaning; None if no similar pattern matches a name either."""

    pattern: str
    meant: str | None


def is_quoted(text: str) -> bool:
    """Whether a whole text is in quotes."""
    return len(text) > 1 and text[0] in _QUOTES and text[-1] == text[0]


def has_quotes(items: Iterable[str]) -> bool:
    """Whether a list was written with quotes, around the list or around one of its items."""
    return any(item[:1] in _QUOTES or item[-1:] in _QUOTES for item in items if item)


def unquoted(items: Iterable[str]) -> str:
    """Return a list as text without the quotes."""
    return ",".join(item.strip(_QUOTES).strip() for item in items)


def without_stars(pattern: str) -> str:
    """Return a file name pattern as a regular expression: `orders-*` becomes `orders-.*`."""
    return _BARE_STAR.sub(".*", pattern)


def idle_patterns(patterns: Sequence[str], names: Sequence[str]) -> list[Idle]:
    """Return the patterns of a list that match none of the names; of a long list only the first patterns are checked.

    A pattern that matches every name is never among them: it contains no name that could be misspelt.
    """
    looked_at = islice(_one_by_one(patterns), _MOST_LOOKED_AT)
    idle = [(pattern, flags) for pattern, flags in looked_at if not _matches(flags, pattern, (*names, _ANY_NAME))]
    return [Idle(pattern, _meant(flags, pattern, names)) for pattern, flags in idle[:_MOST_TOLD]]


def excluded_patterns(patterns: Sequence[str], excluded: Sequence[str], names: Sequence[str]) -> list[tuple[str, int]]:
    """Return the patterns whose matches are all in `excluded`, each with the number of names that it matches."""
    left_out = PatternList(excluded)
    found = []
    for pattern, flags in islice(_one_by_one(patterns), _MOST_LOOKED_AT):
        matched = list(_matched(flags, pattern, names))
        if matched and all(map(left_out.matches, matched)):
            found.append((pattern, len(matched)))
    return found[:_MOST_TOLD]


def _one_by_one(patterns: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each pattern with the flags that earlier patterns leave on; join a pattern that was cut at its commas."""
    if any(not _compiles(pattern) for pattern in patterns):
        yield "|".join(patterns), ""
        return
    flags = ""
    for pattern in patterns:
        yield pattern, flags
        begins = _FLAGS.match(pattern)
        flags += begins[0] if begins else ""


def _matches(flags: str, pattern: str, names: Iterable[str]) -> bool:
    return any(True for _ in _matched(flags, pattern, names))


def _matched(flags: str, pattern: str, names: Iterable[str]) -> Iterator[str]:
    try:
        matcher = PatternList([flags + _NEVER, pattern])
    except BadPattern:
        return iter(())
    return filter(matcher.matches, names)


def _compiles(pattern: str) -> bool:
    try:
        PatternList([pattern])
    except BadPattern:
        return False
    return True


def _meant(flags: str, pattern: str, names: Sequence[str]) -> str | None:
    candidates = (one for one in _candidates(pattern, names) if one != pattern)
    return next((one for one in candidates if _matches(flags, one.replace(",", "|"), names)), None)


def _candidates(pattern: str, names: Sequence[str]) -> Iterator[str]:
    """Yield possible meanings, the likeliest first."""
    yield without_stars(pattern)
    yield pattern.strip("/")
    yield ",".join(part for part in _SEPARATORS.split(pattern) if part)
    yield pattern.replace("\\\\", "\\")
    whole = f"({pattern})" if "|" in pattern else pattern
    some_letters = _LEAST_WORD.search(pattern) is not None
    if some_letters:
        yield f"{whole}.*"
    one_name = literal(pattern)
    near = nearest(one_name, names) if one_name else None
    if near:
        yield near
    yield f"(?i:{pattern})"
    if some_letters:
        yield f".*{whole}"
        yield f".*{whole}.*"
