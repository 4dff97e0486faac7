"""Lists the tables of a storage, with their sizes as the log tells them: no data file is read."""

from engine.config.storage import Storage
from engine.jobs.tables.catalog import TABLES
from engine.jobs.tables.listing import TableLine
from engine.jobs.tables.table import Table


def overview(storage: Storage) -> list[TableLine]:
    """Return the tables that exist. Raises TableError, NewerFormat."""
    found = [Table(storage.path("tables", spec.name), spec) for spec in TABLES]
    return [_line(table) for table in found if table.exists()]


def _line(table: Table) -> TableLine:
    snapshot = table.snapshot()
    return TableLine(
        name=table.spec.name,
        uri=table.uri,
        meaning=table.spec.meaning,
        version=snapshot.version,
        files=len(snapshot.files),
        rows=sum(file.rows for file in snapshot.files),
        bytes=sum(file.size for file in snapshot.files),
        newest_ms=max((file.last for file in snapshot.files if file.last is not None), default=None),
    )
