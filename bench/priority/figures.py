"""Figures of single runs and of rounds: quantiles of the hot topic, its goals, and the speed of the bulk."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.latency.judge import QUANTILES, quantiles_ms
from bench.priority.cases import ALONE, BESIDE, CAPPED, CAPPED_CLASSES, CLASSES, MM2_ALONE

Figures = dict[str, Any]
_SHOWN = ("p50_ms", "p99_ms", "p99.9_ms", "max_ms", "source_p99_ms", "bulk_mib_per_s", "seconds", "cpu_percent")
GOAL_ABOVE_ALONE_MS = 5.0
GOAL_OF_BESIDE = 0.25


def hot(took_ns: npt.NDArray[np.int64], numbers: tuple[int, int]) -> Figures:
    """Return the quantiles of the records that count, and how many they are."""
    counted = took_ns[numbers[0] : numbers[1]]
    return {**quantiles_ms(counted), "records": int(counted.size)}


def summary(rounds: Sequence[Mapping[str, Figures]]) -> dict[str, Any]:
    """Return the medians of each case over its rounds, its single runs, and comparisons within rounds.

    `above_alone`: minus the same system alone, in the same round; `of_beside`: divided by the same system beside the
    bulk with nothing set.
    """
    found: dict[str, Any] = {}
    for case in dict.fromkeys(name for one in rounds for name in one):
        runs = [one[case] for one in rounds if case in one]
        figures: Figures = {name: _median([run[name] for run in runs]) for name in runs[0]}
        alone = MM2_ALONE if case.startswith("mm2") else ALONE
        above = [(one[case], one[alone]) for one in rounds if case in one and alone in one]
        if case != alone and above:
            figures["above_alone"] = {
                name: _median([own[name] - base[name] for own, base in above]) for name in QUANTILES
            }
        beside = [(one[case], one[BESIDE]) for one in rounds if case in one and BESIDE in one]
        if case == CLASSES and beside:
            figures["of_beside"] = {
                name: _median([own[name] / base[name] for own, base in beside]) for name in QUANTILES
            }
        found[case] = {**figures, "runs": runs}
    return found


def goals(found: Mapping[str, Figures]) -> dict[str, Any]:
    """Return each goal with its figure, and whether it is met; goals without figures are left out."""
    judged: dict[str, Any] = {}
    for case in (CAPPED, CAPPED_CLASSES):
        if "above_alone" in found.get(case, {}):
            value = found[case]["above_alone"]["p99_ms"]
            judged[f"{case} p99 above alone, ms"] = _judged(value, GOAL_ABOVE_ALONE_MS)
    if "of_beside" in found.get(CLASSES, {}):
        judged["classes p99 / beside p99"] = _judged(found[CLASSES]["of_beside"]["p99_ms"], GOAL_OF_BESIDE)
    return judged


def _judged(value: float, most: float) -> dict[str, Any]:
    return {"value": value, "most": most, "is_met": value <= most}


def _median(values: Sequence[float]) -> float:
    return round(statistics.median(values), 2)


def rows(found: Mapping[str, Figures], judged: Mapping[str, Any]) -> list[str]:
    """Return the lines of the table, and of the goals."""
    lines = [f"{'':16}" + "".join(f"{name:>15}" for name in _SHOWN)]
    for case, figures in found.items():
        cells = [f"{figures[name]:.2f}" if name in figures else "" for name in _SHOWN]
        lines.append(f"{case:16}" + "".join(f"{cell:>15}" for cell in cells))
    for goal, one in judged.items():
        lines.append(f"{goal}: {one['value']:.2f}, at most {one['most']:g}: {'met' if one['is_met'] else 'NOT met'}")
    return lines
