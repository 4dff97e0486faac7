"""Place that makes and compares a proof's tables: Spark (`places/sides.py`), or this process (`places/local.py`).

A place reads pieces of both logs and runs the SQL of `rules.py`. `waves.py` decides what to ask of it, and judges the
answers.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, TypeVar

from engine.jobs.proof.plan import LanePart, Offsets, ProofLane, buckets
from engine.jobs.proof.rules import Dialect
from policies.model import TopicPartition

Stretch = tuple[int, int]
Row = Any
"""A row, read by the names of its columns."""
LaneRow = tuple[str, int, int, int, int, int]
"""A row of `rules.LANES`."""
Table = TypeVar("Table")


def ignore(_offsets: int) -> None:
    """Ignore the progress of a read."""


class ProofPlace(Protocol[Table]):
    """A place whose tables are of one kind."""

    dialect: Dialect

    @property
    def cores(self) -> int:
        """The number of tasks that run at a time."""

    def share(self, most_tasks: int) -> None:
        """Run at most `most_tasks` tasks at a time from now on; 0: one per core."""

    def measured(self, records: int, took_s: float) -> None:
        """Note that `records` records of both sides took `took_s` seconds, to choose the size of later tasks."""

    def records(
        self,
        found: Sequence[LanePart],
        ends: Mapping[int, Stretch],
        *,
        few: bool = False,
        advance: Callable[[int], None] = ignore,
    ) -> tuple[Table, Table]:
        """Read pieces on both sides, up to the ends given per lane (source, target), each record with its place.

        `few`: the result made of them has few rows. `advance` gets the number of source offsets that were read, if the
        place reads at once and not later.
        """

    def table(self, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Table:
        """Make a table of integers and booleans, with at least one row."""

    def query(self, text: str, **tables: Table) -> Table:
        """Run a query text of `rules.py` on tables."""

    def rows(self, table: Table) -> list[Row]:
        """Fetch the rows of a table."""

    def sides(self, source: Table, target: Table, text: str, most_tasks: int) -> list[tuple[int, Row]]:
        """Run a query text on the `records` of both sides, and fetch its rows with the number of their side.

        Both sides run at once; with `most_tasks`, one after the other in that many tasks.
        """

    def kept(self, table: Table) -> AbstractContextManager[Table]:
        """Compute a table only once while it is used several times."""


class ReadPlan(NamedTuple):
    """Offsets to read on both sides for some pieces, the lane of each partition, and the runs of their maps."""

    here: dict[TopicPartition, Stretch]
    there: dict[TopicPartition, Stretch]
    ours: list[LaneRow]
    theirs: list[LaneRow]
    runs: dict[str, Offsets]


def read_plan(lanes: Sequence[ProofLane], found: Sequence[LanePart], ends: Mapping[int, Stretch]) -> ReadPlan:
    """Plan the reading of pieces, up to the ends given per lane (source, target), within the bounds of the logs."""
    widths, columns = buckets(found)
    made = ReadPlan({}, {}, [], [], columns)
    for one, (lane, base, width) in zip(found, widths, strict=True):
        (source, target), stamped = lanes[lane].name, int(lanes[lane].stamped)
        made.here[source] = _within(one.source_from, ends[lane][0], lanes[lane].source_bounds)
        made.there[target] = _within(one.target_from, ends[lane][1], lanes[lane].target_bounds)
        made.ours.append((*source, lane, 0, 1, stamped))
        made.theirs.append((*target, lane, base, width, stamped))
    return made


def _within(start: int, end: int, bounds: Stretch) -> Stretch:
    low = min(max(start, bounds[0]), bounds[1])
    return low, max(low, min(end, bounds[1]))
