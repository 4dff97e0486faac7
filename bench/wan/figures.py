"""Figures of the bench `wan`: medians and spreads of each case, ratios within one round, the table."""

import os
import statistics
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from bench.wan.measure import WanRun

Runs = dict[str, list[WanRun]]
"""Runs of each system in one case, in the order of the rounds."""
_SHOWN = {
    "mib_per_s": "MiB / s",
    "middle_mib_per_s": "in the middle",
    "wall_s": "window s",
    "cpu_s_per_gib": "CPU s / GiB",
    "peak_rss_mib": "peak RSS MiB",
    "connections": "connections",
    "carried_ratio": "carried / copied",
}
_SPREAD = ("mib_per_s", "middle_mib_per_s", "cpu_s_per_gib")
_COMPARED = ("mib_per_s", "middle_mib_per_s", "cpu_s_per_gib")


def summary(runs: Runs) -> dict[str, Any]:
    """Return the object of one case: `systems` with medians, spreads and single values, and `ratios`."""
    measured = {system: of_system for system, of_system in runs.items() if of_system}
    return {"systems": {system: _of_system(of) for system, of in measured.items()}, "ratios": ratios(measured)}


def ratios(runs: Runs) -> dict[str, float]:
    """`raymirror/OTHER FIELD`: the median over the rounds of the ratio of two runs of one round.

    A round in which one of the two has no figure is left out.
    """
    ours = runs.get("raymirror", [])
    found = {}
    for other, theirs in runs.items():
        pairs = list(zip(ours, theirs, strict=False))
        if other == "raymirror" or not pairs:
            continue
        for field in _COMPARED:
            values = [getattr(a, field) / getattr(b, field) for a, b in pairs if getattr(b, field)]
            if values:
                found[f"raymirror/{other} {field}"] = _round(statistics.median(values))
    return found


def print_table(name: str, found: dict[str, Any], rounds: int) -> None:
    """Print one case."""
    console = Console(width=None if os.isatty(1) else 140)
    table = Table(title=f"wan, {name}: MiB of records, medians of {rounds} rounds (least to most)")
    table.add_column("system")
    for title in _SHOWN.values():
        table.add_column(title, justify="right")
    for system, figures in found["systems"].items():
        table.add_row(system, *(_cell(figures, field) for field in _SHOWN))
    console.print(table)
    for ratio, value in found["ratios"].items():
        console.print(f"  {ratio:<45} {value:>10,.2f}", highlight=False)


def _of_system(runs: list[WanRun]) -> dict[str, Any]:
    figures = [msgspec.structs.asdict(run) for run in runs]
    found: dict[str, Any] = {
        field: _round(statistics.median(one[field] for one in figures)) for field in figures[0] if field != "is_whole"
    }
    found["is_whole"] = all(run.is_whole for run in runs)
    found["spread"] = {field: [_round(edge(one[field] for one in figures)) for edge in (min, max)] for field in _SPREAD}
    found["runs"] = [{field: _round(value) for field, value in one.items()} for one in figures]
    return found


def _cell(figures: dict[str, Any], field: str) -> str:
    text = _shown(figures[field])
    if field in figures["spread"] and len(figures["runs"]) > 1:
        least, most = figures["spread"][field]
        text += f" ({_shown(least)} to {_shown(most)})"
    return text


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


def _round(value: float) -> float:
    """Four significant digits; counts and truths stay as they are."""
    return value if isinstance(value, int) else float(f"{value:.4g}")
