"""Cells of the history of lag, for tables and the report page: breaches, stalls, sums of windows."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from actors.observability.instants import clock_text
from actors.observability.lagging import seconds_text

if TYPE_CHECKING:
    from engine.jobs.lag.rpo_spans import Breach
    from engine.jobs.lag.summary import Stall


def breach_cells(one: "Breach") -> tuple[str, ...]:
    """Return topic, from, until, worst, objective."""
    until = "still" if one.until_ms is None else clock_text(one.until_ms)
    return one.topic, clock_text(one.since_ms), until, seconds_text(one.worst_s), seconds_text(one.objective_s)


def stall_cells(one: "Stall") -> tuple[str, ...]:
    """Return topic, reason, from, until, partitions, and the total time."""
    times = clock_text(one.first_ms), clock_text(one.last_ms)
    return one.topic, one.reason, *times, f"{one.partitions:,}", seconds_text(one.seconds)


def most(values: Iterable[float | None]) -> float | None:
    """Return the highest value, None if none is known."""
    return max((value for value in values if value is not None), default=None)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
