"""Figures from runs: medians, ratios within one repeat, the table and the JSON object."""

import os
import platform
import statistics
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from bench.dataset import Backlog
from bench.measure import Run

Runs = dict[str, list[Run]]
"""Runs of each system on one payload, in the order of the repeats."""

_SHOWN = {
    "wall_s": "wall s",
    "cpu_s": "CPU s",
    "cpu_all_s": "CPU s, all",
    "logical_mib_per_cpu_s": "logical MiB / CPU s",
    "wire_mib_per_cpu_s": "wire MiB / CPU s",
    "logical_mib_per_s": "logical MiB / s",
    "peak_rss_mib": "peak RSS MiB",
}
_COMPARED = ("logical_mib_per_cpu_s", "logical_mib_per_cpu_all_s", "wire_mib_per_cpu_s", "wall_s")


def all_figures(run: Run) -> dict[str, float]:
    """Measured fields and the rates computed from them."""
    return {**msgspec.structs.asdict(run), **run.rates}


def medians(runs: list[Run]) -> dict[str, Any]:
    """The median of each field over the repeats, with the single values of wall and CPU time."""
    figures = [all_figures(run) for run in runs]
    found: dict[str, Any] = {
        field: _round(statistics.median(figure[field] for figure in figures)) for field in figures[0]
    }
    found["runs"] = [{field: _round(figure[field]) for field in ("wall_s", "cpu_s", "cpu_all_s")} for figure in figures]
    return found


def ratios(runs: Runs) -> dict[str, float]:
    """`A/B FIELD` for raymirror against each other system (else for each pair of neighbours): median of the repeats.

    A ratio compares two runs of one repeat, which are minutes apart at most; only then the median is taken.
    """
    first = "raymirror" if "raymirror" in runs else next(iter(runs))
    return {
        f"{first}/{other} {field}": _round(
            statistics.median(
                all_figures(ours)[field] / all_figures(theirs)[field]
                for ours, theirs in zip(runs[first], runs[other], strict=True)
            )
        )
        for other in runs
        if other != first
        for field in _COMPARED
    }


def machine() -> dict[str, Any]:
    """The facts about the machine that a reader needs."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "cpu": _cpu_model(),
        "memory_gib": round(memory_bytes / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "kafka": "4.3.1",
    }


def summary(runs: Runs, backlog: Backlog, idle_rss_mib: dict[str, float]) -> dict[str, Any]:
    """The object of one payload; with memory above idle, for systems whose copiers were measured at rest."""
    systems = {system: medians(of_system) for system, of_system in runs.items()}
    for system, idle_mib in idle_rss_mib.items():
        peak_mib = max(run.peak_rss_mib for run in runs[system])
        systems[system] |= {"idle_rss_mib": _round(idle_mib), "rss_above_idle_mib": _round(peak_mib - idle_mib)}
    return {
        "systems": systems,
        "ratios": ratios(runs),
        "dataset": {
            "records": backlog.records,
            "partitions": backlog.partitions,
            "batches": backlog.batches,
            "codec": backlog.codec,
            "logical_mib": _round(backlog.logical_bytes / 2**20),
            "wire_mib": _round(backlog.wire_bytes / 2**20),
            "batch_wire_bytes": backlog.wire_bytes // backlog.batches,
        },
    }


def print_table(payload: str, found: dict[str, Any]) -> None:
    """Print one payload's systems and its ratios."""
    data = found["dataset"]
    console = Console(width=None if os.isatty(1) else 140)
    table = Table(
        title=f"drain, {payload}: {data['records']:,} records, {data['logical_mib']:,.0f} MiB ({data['wire_mib']:,.0f}"
        f" on the wire), {data['partitions']} partitions, batches of {data['batch_wire_bytes'] / 1024:.0f} KiB; medians"
    )
    table.add_column("system")
    for title in _SHOWN.values():
        table.add_column(title, justify="right")
    for system, figures in found["systems"].items():
        table.add_row(system, *(_shown(figures[field]) for field in _SHOWN))
    console.print(table)
    for name, ratio in found["ratios"].items():
        console.print(f"  {name:<55} {ratio:>10,.2f}", highlight=False)


def _shown(value: float) -> str:
    return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


def _round(value: float) -> float:
    """Four significant digits; counts stay whole."""
    return value if isinstance(value, int) else float(f"{value:.4g}")


def _cpu_model() -> str:
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
