"""Where a proof's tables are made and compared: Spark (`proof_sides`), or this process (`proof_local`).

A place reads pieces of both logs and runs the SQL of `proof_rules`; what is asked of it, and what follows from the
answers, is `proof_waves`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, TypeVar

from engine.jobs.proof_plan import Lane, Offsets, Piece, buckets
from engine.jobs.proof_rules import Dialect
from policies.model import TopicPartition

Stretch = tuple[int, int]
Row = Any
"""A row, asked by the names of its columns."""
LaneRow = tuple[str, int, int, int, int, int]
"""A row of `proof_rules.LANES`."""
Table = TypeVar("Table")


def ignore(_offsets: int) -> None:
    """Hear how far a reading is, and do nothing."""


class ProofPlace(Protocol[Table]):
    """A place of tables of one kind."""

    dialect: Dialect

    @property
    def cores(self) -> int:
        """How many tasks run at a time."""

    def share(self, most_tasks: int) -> None:
        """Have so many tasks at a time from now on, 0: as many as there are cores."""

    def measured(self, records: int, took_s: float) -> None:
        """Learn from how long so many records of both sides took."""

    def records(
        self,
        found: Sequence[Piece],
        ends: Mapping[int, Stretch],
        *,
        few: bool = False,
        advance: Callable[[int], None] = ignore,
    ) -> tuple[Table, Table]:
        """Read pieces on both sides, up to the ends given per lane (source, target), each record with its place.

        `few`: what is made of them has few rows. `advance` hears how many source offsets were read, where a place reads
        at once.
        """

    def table(self, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Table:
        """Make a table of whole numbers and truths, of one row at least."""

    def query(self, text: str, **tables: Table) -> Table:
        """Run a text of `proof_rules` on tables."""

    def rows(self, table: Table) -> list[Row]:
        """Fetch a table."""

    def sides(self, source: Table, target: Table, text: str, most_tasks: int) -> list[tuple[int, Row]]:
        """Run a text on the `records` of both sides, and fetch its rows with the number of their side.

        Both at once, or with `most_tasks` one after the other in so many tasks.
        """

    def kept(self, table: Table) -> AbstractContextManager[Table]:
        """Have a table computed once, while it is asked for several times."""


class ReadPlan(NamedTuple):
    """What is to be read of both sides for some pieces, which lane each partition is, and the runs of their maps."""

    here: dict[TopicPartition, Stretch]
    there: dict[TopicPartition, Stretch]
    ours: list[LaneRow]
    theirs: list[LaneRow]
    runs: dict[str, Offsets]


def read_plan(lanes: Sequence[Lane], found: Sequence[Piece], ends: Mapping[int, Stretch]) -> ReadPlan:
    """Lay out the reading of pieces, up to the ends given per lane (source, target), within what logs hold."""
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
