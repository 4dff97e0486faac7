"""Draws charts of bars as one SVG image that stands alone: no script, no fonts or other files.

The value is written beside each bar, so systems that differ by a factor of a hundred can be read on one axis.
"""

from collections.abc import Sequence
from html import escape

from actors.report.units import COUNT
from bench.plots.charts import Bar, Chart

WIDTH = 900
_LEFT, _RIGHT = 190, 110
"""Places for the names of systems and for the values."""
_BAR, _GAP, _HEAD = 16, 6, 26
_PALETTE = ("#0969da", "#bc4c00", "#9a6700", "#1a7f37", "#8250df", "#57606a", "#bf3989")
_STYLE = (
    "text{font:12px sans-serif;fill:#1f2328}.title{font-size:17px;font-weight:bold}.chart{font-weight:bold}"
    ".quiet{fill:#59636e}.grid{stroke:#d1d9e0}.run{stroke:#1f2328;stroke-width:1.5}"
)


def draw(title: str, subtitle: str, charts: Sequence[Chart]) -> str:
    """Return an SVG document: a title, and the charts one below the other. A system has one colour in all of them."""
    names = dict.fromkeys(system for chart in charts for bars in chart.groups.values() for system in bars)
    # raymirror first, so that it has the same colour in the images of all benches
    ordered = sorted(names, key=lambda system: system != "raymirror")
    colours = {system: _PALETTE[at % len(_PALETTE)] for at, system in enumerate(ordered)}
    drawn, y = [], 60.0
    for chart in charts:
        lines, y = _chart(chart, colours, y)
        drawn += lines
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y:.0f}" viewBox="0 0 {WIDTH} {y:.0f}"'
        f' role="img" aria-label="{escape(title)}"><style>{_STYLE}</style>\n'
        f'<rect width="{WIDTH}" height="{y:.0f}" fill="#fff"/>\n'
        f"{_text(16, 26, title, 'title')}\n{_text(16, 46, subtitle, 'quiet')}\n" + "\n".join(drawn) + "\n</svg>\n"
    )


def _chart(chart: Chart, colours: dict[str, str], y: float) -> tuple[list[str], float]:
    """Draw one chart from a height on; return its parts and the height below it."""
    ticks = COUNT.ticks(max(bar.most for bars in chart.groups.values() for bar in bars.values()))
    scale = (WIDTH - _LEFT - _RIGHT) / ticks[-1]
    parts = [_text(16, y + 18, chart.title, "chart")]
    top = y = y + _HEAD
    for group, bars in chart.groups.items():
        parts.append(_text(16, y + 14, group, "quiet"))
        y += _BAR + _GAP
        for system, bar in bars.items():
            parts += _bar(system, bar, colours[system], scale, y)
            y += _BAR + _GAP
    grid = []
    for tick in ticks:
        x = _LEFT + tick * scale
        grid.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top:.0f}" y2="{y:.0f}"/>')
        grid.append(_text(x, y + 14, COUNT.text(tick), "quiet", anchor="middle"))
    return grid + parts, y + 2 * _HEAD


def _bar(system: str, bar: Bar, colour: str, scale: float, y: float) -> list[str]:
    width, middle = bar.value * scale, y + _BAR / 2
    least, most = _LEFT + bar.least * scale, _LEFT + bar.most * scale
    return [
        _text(_LEFT - 8, middle + 4, system, anchor="end"),
        f'<rect x="{_LEFT}" y="{y:.1f}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>',
        f'<line class="run" x1="{least:.1f}" x2="{most:.1f}" y1="{middle:.1f}" y2="{middle:.1f}"/>',
        _text(max(_LEFT + width, most) + 6, middle + 4, COUNT.text(bar.value)),
    ]


def _text(x: float, y: float, words: str, kind: str = "", *, anchor: str = "start") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text{style} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
