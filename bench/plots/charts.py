"""Turns the JSON object of a bench into charts: which figures are drawn, and where the object holds them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from bench.errors import BenchError


class Bar(msgspec.Struct, frozen=True):
    """A median, and the least and the most of the single runs (the median itself where they are not known)."""

    value: float
    least: float
    most: float


class Chart(msgspec.Struct, frozen=True):
    """Bars of systems in groups: payloads, cases or rates."""

    title: str
    groups: dict[str, dict[str, Bar]]


class _Layout(msgspec.Struct, frozen=True):
    """Where a bench's object holds its groups, and which fields are drawn, with the titles of their charts."""

    groups: str
    fields: dict[str, str]
    group_title: str = "{}"


_COPYING = "per CPU-second of the copying processes (more is better)"
_LAYOUTS = {
    "drain": _Layout(
        "payloads",
        {
            "logical_mib_per_cpu_s": f"MiB of records, uncompressed, {_COPYING}",
            "wall_s": "Wall time of the copy in seconds (less is better)",
        },
    ),
    "tiny": _Layout(
        "payloads",
        {
            "records_per_cpu_s": f"Records {_COPYING}",
            "wall_s": "Wall time of the copy in seconds (less is better)",
            "records_per_target_batch": "Records in a batch at the target",
        },
    ),
    "wan": _Layout(
        "cases",
        {
            "mib_per_s": "MiB of records, uncompressed, a second (more is better)",
            "cpu_s_per_gib": "CPU-seconds for a GiB of records (less is better)",
        },
    ),
    "latency": _Layout(
        "rates",
        {
            "p50_ms": "Half of the records arrive within, in ms (less is better)",
            "p99_ms": "99 % of the records arrive within, in ms (less is better)",
            "p99.9_ms": "99.9 % of the records arrive within, in ms (less is better)",
        },
        "{} records a second",
    ),
}
DRAWN = tuple(_LAYOUTS)
"""The benches whose results can be drawn."""


def charts(found: Mapping[str, Any]) -> list[Chart]:
    """Return the charts of a bench's object. Raises BenchError if it is of another bench, or holds no figures."""
    layout = _LAYOUTS.get(str(found.get("bench")))
    if layout is None:
        raise BenchError("plot", f"no plot for a result of {found.get('bench')!r}; known: {', '.join(DRAWN)}")
    drawn = []
    for field, title in layout.fields.items():
        groups = {}
        for name, group in found[layout.groups].items():
            systems = group.get("systems", group)
            if bars := {system: _bar(one, field) for system, one in systems.items() if field in one}:
                groups[layout.group_title.format(name)] = bars
        if groups:
            drawn.append(Chart(title, groups))
    if not drawn:
        raise BenchError("plot", "the result holds no figures")
    return drawn


def subtitle(found: Mapping[str, Any]) -> str:
    """Return the line under the title: rounds, machine, and that quick figures mean nothing."""
    machine = found["machine"]
    rounds = found.get("repeats", found.get("rounds"))
    words = [f"medians of {rounds} rounds, lines from the least to the most" if rounds != 1 else "one round"]
    words += [f"{machine['cpus']} x {machine['cpu']}", f"Kafka {machine['kafka']}"]
    if found.get("tls"):
        words.append("by TLS")
    if found["quick"]:
        words.append("quick: the figures mean nothing")
    return ", ".join(words)


def _bar(figures: Mapping[str, Any], field: str) -> Bar:
    value = float(figures[field])
    single = [float(run[field]) for run in figures.get("runs", ()) if field in run]
    return Bar(value, min(single, default=value), max(single, default=value))
