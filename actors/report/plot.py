"""Lines over time as SVG: axes, a legend, a gap where nothing is known. No script, nothing from elsewhere."""

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape

import msgspec

WIDTH, HEIGHT = 920, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 12, 12, 28
COLOURS = ("#3465a4", "#cc5500", "#2e8b57", "#b03060", "#7a5ea8", "#8b6914", "#008b8b", "#555555")
_TICKS = 5
_TIME_STEPS_S = (60, 300, 600, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400, 172_800, 604_800)
_LEAST = 1e-9
_FAR = 2.5
"""Points further apart than so many steps are not joined: there was nothing in between."""


class Line(msgspec.Struct, frozen=True):
    """One line: points (Unix ms, value) in order of time; None where the value is not known."""

    name: str
    points: Sequence[tuple[int, float | None]]


class Span(msgspec.Struct, frozen=True):
    """A stretch of time that is shaded."""

    since_ms: int
    until_ms: int


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """What all plots of a page share: the stretch of time, and how far apart points are."""

    since_ms: int
    until_ms: int
    step_ms: int

    def x(self, at_ms: float) -> float:
        """Give the place of an instant."""
        share = (at_ms - self.since_ms) / max(1, self.until_ms - self.since_ms)
        return _LEFT + share * (WIDTH - _LEFT - _RIGHT)


def plot(
    title: str,
    frame: Frame,
    lines: Sequence[Line],
    unit: Callable[[float], str],
    *,
    shaded: Sequence[Span] = (),
    mark: float | None = None,
) -> str:
    """Draw lines; `unit` writes a value, `mark` is a value that is ruled across."""
    values = [value for line in lines for _, value in line.points if value is not None]
    top = nice_top(max([*values, mark or 0.0], default=0.0))
    drawn = [
        *(_shade(frame, span) for span in shaded),
        *_value_axis(top, unit),
        *_time_axis(frame),
        *(_line(frame, line, COLOURS[at % len(COLOURS)], top) for at, line in enumerate(lines)),
    ]
    if mark is not None:
        drawn.append(
            f'<line class="mark" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{_y(mark, top)}" y2="{_y(mark, top)}"/>'
        )
    if not values:
        drawn.append(f'<text class="none" x="{WIDTH / 2:.0f}" y="{HEIGHT / 2:.0f}">nothing was measured</text>')
    legend = "".join(
        f'<span><i style="background:{COLOURS[at % len(COLOURS)]}"></i>{escape(line.name)}</span>'
        for at, line in enumerate(lines)
    )
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' aria-label="{escape(title)}">{"".join(drawn)}</svg><p class="legend">{legend}</p></figure>'
    )


def nice_top(most: float) -> float:
    """Give a round number at or above a value, for the end of an axis; 1 for nothing."""
    if most < _LEAST:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= most * 0.999999)


def _y(value: float, top: float) -> str:
    return f"{HEIGHT - _BOTTOM - min(max(value / top, 0.0), 1.0) * (HEIGHT - _TOP - _BOTTOM):.1f}"


def _shade(frame: Frame, span: Span) -> str:
    first, last = max(span.since_ms, frame.since_ms), min(span.until_ms, frame.until_ms)
    width, height = max(1.0, frame.x(last) - frame.x(first)), HEIGHT - _TOP - _BOTTOM
    return f'<rect class="span" x="{frame.x(first):.1f}" y="{_TOP}" width="{width:.1f}" height="{height}"/>'


def _value_axis(top: float, unit: Callable[[float], str]) -> list[str]:
    drawn = []
    for tick in range(_TICKS + 1):
        value = top * tick / _TICKS
        y = _y(value, top)
        drawn.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>')
        drawn.append(f'<text class="value" x="{_LEFT - 6}" y="{float(y) + 4:.1f}">{escape(unit(value))}</text>')
    return drawn


def _time_axis(frame: Frame) -> list[str]:
    span_s = (frame.until_ms - frame.since_ms) / 1000
    step_s = next((step for step in _TIME_STEPS_S if span_s / step <= 8), _TIME_STEPS_S[-1])
    pattern = "%H:%M" if step_s < 86_400 and span_s <= 86_400 else "%d %b %H:%M" if step_s < 86_400 else "%d %b"
    drawn = []
    for at_s in range(-(-frame.since_ms // 1000 // step_s) * step_s, frame.until_ms // 1000 + 1, step_s):
        x = frame.x(at_s * 1000)
        if x < _LEFT:
            continue
        text = datetime.fromtimestamp(at_s, UTC).strftime(pattern)
        drawn.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/>')
        drawn.append(f'<text class="time" x="{x:.1f}" y="{HEIGHT - 8}">{text}</text>')
    return drawn


def _line(frame: Frame, line: Line, colour: str, top: float) -> str:
    pieces: list[list[tuple[int, float]]] = [[]]
    for at_ms, value in line.points:
        if value is None:
            pieces.append([])
            continue
        if pieces[-1] and at_ms - pieces[-1][-1][0] > _FAR * frame.step_ms:
            pieces.append([])
        pieces[-1].append((at_ms, value))
    drawn = []
    for piece in pieces:
        places = " ".join(f"{frame.x(at_ms):.1f},{_y(value, top)}" for at_ms, value in piece)
        if len(piece) == 1:
            x, y = places.split(",")
            drawn.append(f'<circle cx="{x}" cy="{y}" r="2" fill="{colour}"/>')
        elif piece:
            drawn.append(f'<polyline points="{places}" stroke="{colour}"/>')
    return f"<g><title>{escape(line.name)}</title>{''.join(drawn)}</g>"
