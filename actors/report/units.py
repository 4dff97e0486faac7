"""Units of a plot's axes: round steps of numbers, bytes and time, and the text of a value."""

import math
from collections.abc import Callable

import msgspec

MOST_STEPS = 5
_LEAST = 1e-9
_SLACK = 1e-5
"""Share of a step by which a value may exceed the last line: it is not visible, and saves another step."""
_DAY_S = 86_400
_ROUND_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, _DAY_S)


class Unit(msgspec.Struct, frozen=True):
    """A unit of an axis: `text` writes a value, `step` returns the round step at or above a value."""

    text: Callable[[float], str]
    step: Callable[[float], float]

    def ticks(self, most: float) -> tuple[float, ...]:
        """Return the values at which an axis from 0 has lines: a handful, the last at or above `most`."""
        if most < _LEAST:
            return 0.0, 1.0
        step = self.step(most / MOST_STEPS)
        return tuple(step * at for at in range(max(1, math.ceil(most / step - _SLACK)) + 1))


def count_text(value: float) -> str:
    """Write a number with three digits."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if round(value) >= size:
            return f"{_digits(value / size)} {letter}"
    return _digits(value)


def size_text(value: float) -> str:
    """Write bytes with three digits."""
    for power, name in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if round(value) >= 1024**power:
            return f"{_digits(value / 1024**power)} {name}"
    return f"{_digits(value)} B"


def duration_text(seconds: float) -> str:
    """Write a duration with three digits, or in its two largest units."""
    if seconds < 1:
        return f"{_digits(seconds * 1000)} ms" if seconds > 0 else "0 s"
    if seconds < 60:
        return f"{_digits(seconds)} s"
    whole = round(seconds)
    for size, name, part, parts in ((_DAY_S, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {name} {rest} {parts}" if rest else f"{whole // size} {name}"
    return f"{whole} s"


def _digits(value: float) -> str:
    return f"{float(f'{value:.3g}'):g}"


def _decimal(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least * 0.999999)


def _binary(least: float) -> float:
    return 2.0 ** max(0, math.ceil(math.log2(least) - _LEAST))


def _seconds(least: float) -> float:
    if least <= 0.5:
        return _decimal(least)
    return next((step for step in _ROUND_SECONDS if step >= least), 0) or _DAY_S * _decimal(least / _DAY_S)


COUNT = Unit(count_text, _decimal)
RATIO = Unit(_digits, _decimal)
BYTES = Unit(size_text, _binary)
SECONDS = Unit(duration_text, _seconds)
