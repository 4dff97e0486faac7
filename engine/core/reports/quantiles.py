"""Estimates quantiles of durations that were counted in buckets."""

from collections.abc import Sequence

from engine.core.reports.latency import BOUNDS_MS

_LOWER = (0.0, *BOUNDS_MS)


def quantile(counts: Sequence[int], q: float) -> float | None:
    """Estimate a quantile in ms from counts by bucket of BOUNDS_MS, evenly spread within its bucket; None without any.

    Durations above the last bound count as the last bound, so the estimate is then a lower bound.
    """
    wanted, seen = q * sum(counts), 0
    for at, count in enumerate(counts):
        if count and seen + count >= wanted:
            lower = _LOWER[at]
            width = BOUNDS_MS[at] - lower if at < len(BOUNDS_MS) else 0.0
            return lower + (wanted - seen) / count * width
        seen += count
    return None
