"""Reads the history of lag, the table `lag`: every window once, even if it was written several times.

Each batch that adds to a window writes it again, and so does a query that lost its checkpoint. The row with the most
samples counts, so merging needs no order and may be repeated. After compaction an hour that is over has each window
once.
"""

from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from engine.jobs.tables.catalog import LAG
from engine.jobs.tables.reading import Merge, read
from engine.jobs.tables.table import Table

BEGINS = LAG.span
KEY = ("flow", "topic", "partition", "copier_key", BEGINS)
_RANK = ("samples", "last_ms")


def most_complete(rows: pa.Table) -> pa.Table:
    """Return every window of some rows once, in order of its key."""
    order = [*((name, "ascending") for name in KEY), *((name, "descending") for name in _RANK)]
    rows = rows.take(pc.sort_indices(rows, sort_keys=order))
    if rows.num_rows < 2:
        return rows
    news = pa.array([False] * (rows.num_rows - 1))
    for name in KEY:
        column = rows.column(name)
        news = pc.or_(news, pc.not_equal(column.slice(1), column.slice(0, rows.num_rows - 1)))
    return rows.filter(pa.concat_arrays([pa.array([True]), pc.fill_null(news, True).combine_chunks()]))


class History:
    """Reads the windows of all flows; safe while others write, compact and delete. `uri`: that of the table."""

    def __init__(self, uri: str) -> None:
        self.table = Table(uri, LAG)

    def exists(self) -> bool:
        """Whether anything was ever stored. Raises TableUnreachable."""
        return self.table.exists()

    def windows(
        self, since_ms: int, until_ms: int, columns: Collection[str] | None = None, flow: str | None = None
    ) -> Iterator[pa.Table]:
        """Yield tables of the windows that begin in [since_ms, until_ms), oldest first; no table spans two hours.

        `columns`: those to read in addition to the key. `flow`: only its windows. Memory holds some minutes at a time.
        Raises TableError, NewerFormat.
        """
        wanted = None if columns is None else {*columns, *KEY, *_RANK}
        return read(self.table, (since_ms, until_ms), columns=wanted, merge=_merge_of(flow))


def _merge_of(flow: str | None) -> Merge:
    if flow is None:
        return most_complete
    return lambda rows: most_complete(rows.filter(pc.equal(rows.column("flow"), flow)))
