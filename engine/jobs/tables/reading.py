"""Reads a table in stretches of time, so that memory holds some minutes of it, while others write and compact it."""

from collections.abc import Callable, Collection, Iterable, Iterator

import pyarrow as pa

from engine.jobs.tables.errors import table_errors
from engine.jobs.tables.files import DataFile, arrow_schema, concatenated
from engine.jobs.tables.table import Table, TableSnapshot

Merge = Callable[[pa.Table], pa.Table]
"""Takes the rows of a stretch of time, returns those that count in the table's order; calling it twice is harmless."""
Within = tuple[int, int]
"""Unix ms: from the first, to before the second."""
EVER: Within = (-(1 << 62), 1 << 62)


def read(
    table: Table, within: Within = EVER, *, columns: Collection[str] | None = None, merge: Merge | None = None
) -> Iterator[pa.Table]:
    """Yield the rows whose `span` is in `within`, in stretches of time, oldest first; nothing of a missing partition.

    Without `merge` each stretch is in order of `span`. `merge` needs its columns in `columns` (None: all).
    Raises TableError, NewerFormat.
    """
    snapshot = table.snapshot()
    schema = _schema(table, snapshot, columns)
    sort = merge or in_order(table.spec.span)
    for partition, files in snapshot.partitions().items():
        yield from _partition(table, partition, files, within, schema, sort)


def in_order(span: str) -> Merge:
    """Return a merge that drops nothing, and sorts by one column."""
    return lambda rows: rows.sort_by(span)


def _schema(table: Table, snapshot: TableSnapshot, columns: Collection[str] | None) -> pa.Schema:
    """Return the wanted columns; those that an older table lacks are NULL, of the type that a new table has."""
    known = {field.name: field for field in (*arrow_schema(table.spec), *snapshot.schema)}
    wanted = known if columns is None else {table.spec.span, *columns}
    return pa.schema([known[name] for name in known if name in wanted])


def _partition(
    table: Table, partition: str, files: list[DataFile], within: Within, schema: pa.Schema, merge: Merge
) -> Iterator[pa.Table]:
    """Read a partition; if its files were replaced and deleted meanwhile, continue with the present ones."""
    begin = within[0]
    try:
        for start_ms, rows in stretches(table, files, schema, within, merge):
            yield rows
            begin = start_ms + table.spec.stretch_ms
    except FileNotFoundError as error:
        present = table.still_wants(files, partition, error)
        yield from _partition(table, partition, present, (begin, within[1]), schema, merge)


def stretches(
    table: Table, files: Iterable[DataFile], schema: pa.Schema, within: Within, merge: Merge
) -> Iterator[tuple[int, pa.Table]]:
    """Yield the merged rows of some files by stretches of `stretch_ms`, each with its start in Unix ms.

    Raises FileNotFoundError if a file was deleted.
    """
    told = [_with_span(table, file) for file in files]
    firsts = [file.first for file in told if file.first is not None]
    lasts = [file.last for file in told if file.last is not None]
    if not firsts:
        return
    width = table.spec.stretch_ms
    low, high = max(min(firsts), within[0]), min(max(lasts, default=0) + 1, within[1])
    for start_ms in range(low // width * width, high, width):
        part = max(start_ms, low), min(start_ms + width, high)
        some = [file for file in told if file.rows and file.overlaps(part)]
        if some and (rows := _merged(table, some, schema, part, merge)).num_rows:
            yield start_ms, rows


def _with_span(table: Table, file: DataFile) -> DataFile:
    """Return a file with its span, which is not in the log if another program wrote it."""
    if file.first is not None:
        return file
    with table_errors(table.uri, missing_passes=True):
        return table.files.inspect(file.path, file.partition)


def _merged(table: Table, files: list[DataFile], schema: pa.Schema, part: Within, merge: Merge) -> pa.Table:
    with table_errors(table.uri, missing_passes=True):
        found = [table.files.read(file, schema, part) for file in files]
    rows = concatenated(found, schema)
    return merge(rows) if rows.num_rows else rows
