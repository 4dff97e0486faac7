"""What tables and the report page say of a breach and of a stall, cell by cell."""

from typing import TYPE_CHECKING

from actors.instants import clock_text
from actors.lagging import seconds_text

if TYPE_CHECKING:
    from engine.jobs.lag_summary import Stall
    from engine.jobs.rpo_spans import Breach


def breach_cells(one: "Breach") -> tuple[str, ...]:
    """Topic, from, until, worst, objective."""
    until = "still" if one.until_ms is None else clock_text(one.until_ms)
    return one.topic, clock_text(one.since_ms), until, seconds_text(one.worst_s), seconds_text(one.objective_s)


def stall_cells(one: "Stall") -> tuple[str, ...]:
    """Topic, why, from, until, partitions, all together."""
    times = clock_text(one.first_ms), clock_text(one.last_ms)
    return one.topic, one.reason, *times, f"{one.partitions:,}", seconds_text(one.seconds)
