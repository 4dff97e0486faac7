"""Figures from runs of copies: medians, ratios within one repeat, the table and the JSON object."""

import os
import platform
import statistics
from collections.abc import Mapping
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from bench.dataset import Backlog
from bench.measure import Run

Runs = dict[str, list[Run | None]]
"""Runs of each system on one payload, in the order of the repeats; None: this one has no figures."""


class Shown(msgspec.Struct, frozen=True):
    """What the table of a bench shows: fields with their titles, and the fields that systems are compared by."""

    columns: dict[str, str]
    compared: tuple[str, ...]


DRAIN = Shown(
    {
        "wall_s": "wall s",
        "cpu_s": "CPU s",
        "cpu_all_s": "CPU s, all",
        "logical_mib_per_cpu_s": "logical MiB / CPU s",
        "wire_mib_per_cpu_s": "wire MiB / CPU s",
        "logical_mib_per_s": "logical MiB / s",
        "peak_rss_mib": "peak RSS MiB",
    },
    ("logical_mib_per_cpu_s", "logical_mib_per_cpu_all_s", "wire_mib_per_cpu_s", "wall_s"),
)
TINY = Shown(
    {
        "records_per_cpu_s": "records / CPU s",
        "cpu_s": "CPU s",
        "cpu_all_s": "CPU s, all",
        "wall_s": "wall s",
        "records_per_target_batch": "records / target batch",
        "target_batches": "target batches",
        "target_wire_mib": "target MiB",
        "peak_rss_mib": "peak RSS MiB",
    },
    ("records_per_cpu_s", "wall_s", "records_per_target_batch", "peak_rss_mib"),
)


def all_figures(run: Run) -> dict[str, float]:
    """Measured fields and the rates computed from them."""
    return {**msgspec.structs.asdict(run), **run.rates}


def medians(runs: list[Run]) -> dict[str, Any]:
    """The median of each field over the repeats, with the single values in `runs`."""
    figures = [all_figures(run) for run in runs]
    found: dict[str, Any] = {
        field: _round(statistics.median(figure[field] for figure in figures)) for field in figures[0]
    }
    found["runs"] = [{field: _round(figure[field]) for field in figure} for figure in figures]
    return found


def ratios(runs: Runs, compared: tuple[str, ...] = DRAIN.compared) -> dict[str, float]:
    """`A/B FIELD` for raymirror against each other system (else for each pair of neighbours): median of the repeats.

    A ratio compares two runs of one repeat, which are minutes apart at most; only then the median is taken. A repeat in
    which one of the two has no figures is left out.
    """
    first = "raymirror" if "raymirror" in runs else next(iter(runs))
    found = {}
    for other in runs:
        pairs = [
            (all_figures(ours), all_figures(theirs))
            for ours, theirs in zip(runs[first], runs[other], strict=True)
            if ours is not None and theirs is not None
        ]
        if other != first and pairs:
            for field in compared:
                found[f"{first}/{other} {field}"] = _round(
                    statistics.median(ours[field] / theirs[field] for ours, theirs in pairs)
                )
    return found


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


def summary(
    runs: Runs, backlog: Backlog, shown: Shown = DRAIN, idle_rss_mib: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """The object of one payload, of the systems that have figures; with memory above idle, for systems whose copiers
    were measured at rest.
    """
    measured = {system: [run for run in of_system if run is not None] for system, of_system in runs.items()}
    systems = {system: medians(of_system) for system, of_system in measured.items() if of_system}
    for system, idle_mib in (idle_rss_mib or {}).items():
        if system in systems:
            peak_mib = max(run.peak_rss_mib for run in measured[system])
            systems[system] |= {"idle_rss_mib": _round(idle_mib), "rss_above_idle_mib": _round(peak_mib - idle_mib)}
    return {
        "systems": systems,
        "ratios": ratios(runs, shown.compared),
        "dataset": {
            "records": backlog.records,
            "record_bytes": backlog.record_bytes,
            "partitions": backlog.partitions,
            "batches": backlog.batches,
            "codec": backlog.codec,
            "logical_mib": _round(backlog.logical_bytes / 2**20),
            "wire_mib": _round(backlog.wire_bytes / 2**20),
            "batch_wire_bytes": backlog.wire_bytes // backlog.batches,
            "records_per_batch": _round(backlog.records / backlog.batches),
        },
    }


def print_table(bench: str, payload: str, found: dict[str, Any], shown: Shown = DRAIN) -> None:
    """Print one payload's systems and its ratios."""
    data = found["dataset"]
    console = Console(width=None if os.isatty(1) else 140)
    table = Table(
        title=f"{bench}, {payload}: {data['records']:,} records, {data['logical_mib']:,.0f} MiB"
        f" ({data['wire_mib']:,.0f} on the wire), {data['partitions']} partitions, batches of"
        f" {data['batch_wire_bytes']:,} bytes; medians"
    )
    table.add_column("system")
    for title in shown.columns.values():
        table.add_column(title, justify="right")
    for system, figures in found["systems"].items():
        table.add_row(system, *(_shown(figures[field]) for field in shown.columns))
    console.print(table)
    for name, ratio in found["ratios"].items():
        console.print(f"  {name:<55} {ratio:>10,.2f}", highlight=False)


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


def _round(value: float) -> float:
    """Four significant digits; counts stay whole."""
    return value if isinstance(value, int) else float(f"{value:.4g}")


def _cpu_model() -> str:
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
