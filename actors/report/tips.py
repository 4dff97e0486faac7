"""Draws the tooltips of a plot: the values of all its lines at the pointer, in the browser's own tooltip."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape

from actors.report.frame import Frame, Line
from actors.report.units import Unit

MOST_TIPS = 96
"""Most tooltips of a plot; in the report of a day each covers a quarter of an hour."""
_LONG = 60


def tips(frame: Frame, lines: Sequence[Line], unit: Unit) -> str:
    """Lay strips over a plot; each shows its time and the highest value of each line in it."""
    steps = -(-(frame.until_ms - frame.since_ms) // (frame.step_ms * MOST_TIPS))
    width_ms = frame.step_ms * max(1, steps)
    worst: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for number, line in enumerate(lines):
        for at_ms, value in line.points:
            if value is not None:
                strip = worst[at_ms // width_ms * width_ms]
                strip[number] = max(value, strip.get(number, value))
    drawn = (_tip(frame, at_ms, width_ms, _said(lines, unit, worst[at_ms])) for at_ms in sorted(worst))
    return f'<g class="tips">{"".join(drawn)}</g>'


def _said(lines: Sequence[Line], unit: Unit, values: dict[int, float]) -> str:
    return "".join(f"\n{short(lines[number].name, _LONG)}: {unit.text(value)}" for number, value in values.items())


def _tip(frame: Frame, at_ms: int, width_ms: int, said: str) -> str:
    first, last = frame.share(at_ms), frame.share(at_ms + width_ms)
    times = f"{_clock(at_ms)} to {_clock(at_ms + width_ms)} UTC, at most:"
    return (
        f'<rect x="{first * 100:.2f}%" width="{(last - first) * 100:.2f}%" height="100%">'
        f"<title>{times}{escape(said)}</title></rect>"
    )


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%-d %b %H:%M" + (":%S" if at_ms % 60_000 else ""))


def short(name: str, most: int) -> str:
    """Shorten a name that is longer than `most` characters: leave out its middle."""
    half = (most - 1) // 2
    return name if len(name) <= most else f"{name[:half]}…{name[-half:]}"
