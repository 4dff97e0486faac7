"""Draws lines over time as SVG: axes, a legend, gaps for unknown values. No script and no external resources.

A drawing fills the width of its place: it stretches lines, but not texts, so both can be read on any screen.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape

import msgspec

from actors.report.frame import Frame, Line, Span
from actors.report.tips import short, tips
from actors.report.units import Unit

SIZE = 1000
"""Height and width of the area that lines are drawn in, before it is stretched."""
COLOURS = 9
_TIME_STEPS_S = (60, 300, 600, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400, 172_800, 604_800)
_DAY_S = 86_400
_MOST_TIMES = 8
_HIGH = 4.0
"""A mark this many times above every value is written as a note, not drawn: it would press the lines flat."""
_LONG = 44


class Plot(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a plot: `mark` is a value with a line across the plot, `shaded` are stretches of time."""

    title: str
    lines: Sequence[Line]
    unit: Unit
    note: str = ""
    wide: bool = False
    shaded: Sequence[Span] = ()
    mark: float | None = None


def draw(plot: Plot, frame: Frame) -> str:
    """Draw a plot with its title and legend."""
    most = max((value for line in plot.lines if (value := line.most()) is not None), default=None)
    mark = plot.mark if plot.mark is not None and plot.mark <= _HIGH * (most or 0.0) else None
    ticks = plot.unit.ticks(max(most or 0.0, mark or 0.0))
    top = ticks[-1]
    drawn = [
        *(_shade(frame, span) for span in frame.joined(plot.shaded)),
        *(_value_tick(plot.unit.text(tick), _down(tick, top)) for tick in ticks),
        *_time_axis(frame),
        f'<svg viewBox="0 0 {SIZE} {SIZE}" preserveAspectRatio="none">',
        *(_line(frame, line, at % COLOURS, top) for at, line in enumerate(plot.lines)),
        "</svg>",
        *([] if mark is None else [_mark(plot.unit.text(mark), _down(mark, top))]),
        *([] if most is not None else ['<text class="none" x="50%" y="50%">nothing was measured</text>']),
        tips(frame, plot.lines, plot.unit),
    ]
    far = f"the objective, {plot.unit.text(plot.mark)}, is far above" if plot.mark is not None and mark is None else ""
    notes = "; ".join(text for text in (plot.note, far) if text)
    note = f" <small>{escape(notes)}</small>" if notes else ""
    wide, label = ' class="wide"' if plot.wide else "", escape(plot.title)
    return (
        f"<figure{wide}><figcaption>{label}{note}</figcaption>"
        f'<svg class="plot" role="img" aria-label="{label}">{"".join(drawn)}</svg>{_legend(plot)}</figure>'
    )


def _legend(plot: Plot) -> str:
    """Name the lines, each with its highest value."""
    drawn = []
    for at, line in enumerate(plot.lines):
        most = line.most()
        worst = "" if most is None else f" <small>to {escape(plot.unit.text(most))}</small>"
        name = f'<span title="{escape(line.name)}">{escape(short(line.name, _LONG))}</span>'
        drawn.append(f'<li><i class="c{at % COLOURS}"></i>{name}{worst}</li>')
    return f"<ul>{''.join(drawn)}</ul>"


def _down(value: float, top: float) -> float:
    """Return the place of a value as a share of the height, from the top."""
    return 1 - min(max(value / top, 0.0), 1.0)


def _percent(share: float) -> str:
    return f"{share * 100:.2f}%"


def _shade(frame: Frame, span: Span) -> str:
    x = frame.share(span.since_ms)
    width = max(2 / SIZE, frame.share(span.until_ms) - x)
    return f'<rect class="span" x="{_percent(x)}" y="0" width="{_percent(width)}" height="100%"/>'


def _value_tick(text: str, down: float) -> str:
    y = _percent(down)
    return (
        f'<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/>'
        f'<text class="value" x="-8" y="{y}" dy=".35em">{escape(text)}</text>'
    )


def _mark(text: str, down: float) -> str:
    y = _percent(down)
    return (
        f'<line class="mark" x1="0" x2="100%" y1="{y}" y2="{y}"/>'
        f'<text class="marked" x="100%" y="{y}" dy="-.4em">objective: {escape(text)}</text>'
    )


def _time_axis(frame: Frame) -> list[str]:
    """Draw the time axis; the mark at midnight has the date."""
    span_s = (frame.until_ms - frame.since_ms) / 1000
    step_s = next((step for step in _TIME_STEPS_S if span_s / step <= _MOST_TIMES), 0)
    if not step_s:
        step_s = _DAY_S * -(-round(span_s) // (_DAY_S * _MOST_TIMES))
    drawn = []
    for at_s in range(-(-frame.since_ms // (1000 * step_s)) * step_s, frame.until_ms // 1000 + 1, step_s):
        x = _percent(frame.share(at_s * 1000))
        text = datetime.fromtimestamp(at_s, UTC).strftime("%H:%M" if at_s % _DAY_S else "%-d %b")
        drawn.append(f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="100%"/>')
        drawn.append(f'<text class="time" x="{x}" y="100%" dy="1.5em">{text}</text>')
    return drawn


def _line(frame: Frame, line: Line, colour: int, top: float) -> str:
    drawn = []
    for piece in frame.pieces(line):
        places = [f"{frame.share(at_ms) * SIZE:.1f} {_down(value, top) * SIZE:.0f}" for at_ms, value in piece]
        if len(piece) == 1:
            drawn.append(f'<path class="c{colour} dot" d="M{places[0]}h0"/>')
        else:
            drawn.append(f'<path class="c{colour}" d="M{"L".join(places)}"/>')
    return "".join(drawn)
