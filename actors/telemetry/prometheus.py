"""Formats series as a page for Prometheus: its text format, version 0.0.4."""

from collections.abc import Iterator

from actors.telemetry.collect import Collected, Labels
from actors.telemetry.families import Family
from engine.core.reports.latency import BOUNDS_MS, Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BOUNDS = (*(f"{bound / 1000:g}" for bound in BOUNDS_MS), "+Inf")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def page(collected: Collected) -> str:
    """Return the page; a metric without series is left out."""
    lines: list[str] = []
    for family, series in collected.items():
        if not series:
            continue
        lines += (f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}")
        for labels, value in series.items():
            if isinstance(value, Histogram):
                lines += _histogram(family, labels, value)
            else:
                lines.append(f"{family.name}{_braces(family, labels)} {_number(value)}")
    return "\n".join((*lines, ""))


def _histogram(family: Family, labels: Labels, histogram: Histogram) -> Iterator[str]:
    below = 0
    for bound, count in zip(_BOUNDS, histogram.counts, strict=True):
        below += count
        within = _braces(family, labels, f'le="{bound}"')
        yield f"{family.name}_bucket{within} {below}"
    yield f"{family.name}_sum{_braces(family, labels)} {_number(histogram.sum_ms / 1000)}"
    yield f"{family.name}_count{_braces(family, labels)} {below}"


def _braces(family: Family, labels: Labels, more: str = "") -> str:
    pairs = [f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(family.labels, labels, strict=False)]
    if more:
        pairs.append(more)
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))
