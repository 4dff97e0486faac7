"""Counts durations in buckets: cumulative since a copier's start, never reset, cheap enough for every batch."""

from bisect import bisect_left

import msgspec

BOUNDS_MS = (
    *(0.5, 1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0),
    *(1e3, 2.5e3, 5e3, 10e3, 30e3, 60e3, 300e3, 1800e3, 3600e3, 21600e3, 86400e3),
)
"""Upper bounds of the buckets, inclusive, in ms: half a millisecond to a day; one more bucket is above."""


class Histogram(msgspec.Struct, frozen=True):
    """Durations by bucket of BOUNDS_MS, and their sum in ms. `counts` has the count of each single bucket."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDS_MS) + 1)
    sum_ms: float = 0.0

    @property
    def count(self) -> int:
        """The number of durations."""
        return sum(self.counts)

    def plus(self, other: "Histogram") -> "Histogram":
        """Return the sum of two histograms."""
        counts = tuple(mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True))
        return Histogram(counts, self.sum_ms + other.sum_ms)

    def minus(self, earlier: "Histogram") -> "Histogram":
        """Return the difference from an earlier snapshot of the same histogram."""
        counts = tuple(now - then for now, then in zip(self.counts, earlier.counts, strict=True))
        return Histogram(counts, self.sum_ms - earlier.sum_ms)


class LatencyHistogram:
    """A histogram that grows."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_MS) + 1)
        self._sum_ms = 0.0

    def add(self, duration_ms: float, weight: int = 1) -> None:
        """Count a duration `weight` times; a negative one (clocks differ) counts as 0 ms."""
        duration_ms = max(duration_ms, 0.0)
        self._counts[bisect_left(BOUNDS_MS, duration_ms)] += weight
        self._sum_ms += duration_ms * weight

    def snapshot(self) -> Histogram:
        """Take a frozen copy."""
        return Histogram(tuple(self._counts), self._sum_ms)
