"""Finds the known word that a mistyped word was probably meant to be."""

from collections.abc import Iterable

_UNITS = (".ms", ".seconds", ".minutes", ".hours", ".bytes")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that a mistyped one probably means: one to three letters differ, or only the unit."""
    choices, most = tuple(known), _most(word)
    alike = [one for one in choices if abs(len(one) - len(word)) <= most]
    found = [(_distance(_plain(word), _plain(one)), one) for one in alike]
    near = [(distance, one) for distance, one in found if distance <= most]
    if near:
        return min(near)[1]
    return min((one for one in choices if _stem(one) == _stem(word) != word), default=None)


def _most(word: str) -> int:
    return 1 if len(word) < 6 else 2 if len(word) < 16 else 3


def _plain(word: str) -> str:
    return word.lower().replace("_", ".").replace("-", ".")


def _stem(word: str) -> str:
    return next((word.removesuffix(unit) for unit in _UNITS if word.endswith(unit)), word)


def _distance(one: str, other: str) -> int:
    """Count letters to insert, drop, replace, or swap with their neighbour (optimal string alignment)."""
    before, last = [0] * (len(other) + 1), list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        line = [row]
        for column, wanted in enumerate(other, 1):
            cost = min(last[column] + 1, line[-1] + 1, last[column - 1] + (letter != wanted))
            if row > 1 < column and letter == other[column - 2] and one[row - 2] == wanted:
                cost = min(cost, before[column - 2] + 1)
            line.append(cost)
        before, last = last, line
    return last[-1]
