"""Figures of single runs and of rounds: quantiles, and how far each system is above the broker alone."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.latency.stamped import Plan

BROKER = "broker"
"""The base line: the same producer and consumer on one topic, without a system between them."""
QUANTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p99.9_ms": 0.999, "max_ms": 1.0}
Figures = dict[str, Any]


def judge(plan: Plan, took_ns: npt.NDArray[np.int64], seen: npt.NDArray[np.int64], reordered: int) -> Figures:
    """Return the quantiles in ms of the records after the warm-up; and what the whole run lost, doubled, reordered."""
    measured = took_ns[plan.unmeasured :][seen[plan.unmeasured :] > 0]
    return {
        **quantiles_ms(measured),
        "records": int(measured.size),
        "lost": int((seen == 0).sum()),
        "doubled": int((seen > 1).sum()),
        "reordered": reordered,
    }


def quantiles_ms(took_ns: npt.NDArray[np.int64]) -> dict[str, float]:
    """Return the quantiles in ms; -1 without records."""
    quantiles = np.quantile(took_ns, list(QUANTILES.values())) / 1e6 if took_ns.size else [-1.0] * len(QUANTILES)
    return {name: round(float(value), 2) for name, value in zip(QUANTILES, quantiles, strict=True)}


def faults(figures: Mapping[str, Any], produced: Mapping[str, Any]) -> str:
    """Return why a run gives no figure; empty if it does: every record was sent, and arrived once and in order."""
    wrong = [f"{figures[name]} records {name}" for name in ("lost", "doubled", "reordered") if figures[name]]
    if produced["failed"]:
        wrong.append(f"{produced['failed']} records not sent: {produced['why']}")
    return ", ".join(wrong)


def summary(runs: Mapping[str, Sequence[Figures]]) -> dict[str, Any]:
    """Return the medians of each system over its rounds, its single runs, and `above`: minus the broker of the round.

    The systems of one round are compared with each other, and the median is taken of the differences.
    """
    found: dict[str, Any] = {}
    for system, of_system in runs.items():
        fields = [field for field in of_system[0] if isinstance(of_system[0][field], int | float)]
        figures: Figures = {field: _median([run[field] for run in of_system]) for field in fields}
        if system != BROKER and BROKER in runs:
            figures["above"] = {
                name: _median([own[name] - alone[name] for own, alone in zip(of_system, runs[BROKER], strict=True)])
                for name in QUANTILES
            }
        found[system] = {**figures, "runs": list(of_system)}
    return found


def _median(values: Sequence[float]) -> float:
    return round(statistics.median(values), 2)


def rows(per_s: int, systems: Mapping[str, Figures]) -> list[str]:
    """Return the lines of one rate's table."""
    names = [*QUANTILES, "cpu_percent", "late_ms", "stall_p99_ms"]
    lines = [f"{per_s:,} records a second", f"  {'':14}" + "".join(f"{name:>13}" for name in names)]
    for system, figures in systems.items():
        cells = [f"{figures[name]:.2f}" if name in figures else "" for name in names]
        lines.append(f"  {system:14}" + "".join(f"{cell:>13}" for cell in cells))
        if "above" in figures:
            lines.append(f"  {'  above broker':14}" + "".join(f"{value:>13.2f}" for value in figures["above"].values()))
    return lines
