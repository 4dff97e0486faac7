"""Gives DuckDB raymirror's tables: each as Arrow data sets of the files that count, and every thing in it once."""

from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from engine.config.storage import Storage
from engine.jobs.runtime.storage_files import open_storage
from engine.jobs.sql.query import SqlSession
from engine.jobs.tables.catalog import TABLES
from engine.jobs.tables.columns import TableSpec
from engine.jobs.tables.errors import TableMissing
from engine.jobs.tables.files import DataFile, arrow_schema
from engine.jobs.tables.table import Table


def add_tables(session: SqlSession, storage: Storage) -> bool:
    """Add every table; one that does not exist is empty. Return whether any exists. Raises TableError, NewerFormat."""
    found = [add_table(session, storage, spec) for spec in TABLES]
    return any(found)


def add_table(session: SqlSession, storage: Storage, spec: TableSpec) -> bool:
    """Add one table, an empty one if it does not exist; return whether it exists. Raises TableError, NewerFormat."""
    table = Table(storage.path("tables", spec.name), spec)
    try:
        snapshot = table.snapshot()
    except TableMissing:
        session.register(spec.name, arrow_schema(spec).empty_table())
        return False
    data = _ArrowData(table, snapshot.schema)
    if spec.once:
        _add_once(session, spec, data, snapshot.partitions())
    else:
        session.register(spec.name, data.of(list(snapshot.files)))
    return True


class _ArrowData:
    """Makes a data set of some files of a table, of which a query reads only the columns and files that it needs.

    Not that of deltalake, which reads through Python's own files, and not through those of Arrow.
    """

    def __init__(self, table: Table, schema: pa.Schema) -> None:
        self._spec, self._schema = table.spec, schema
        root, path = open_storage(table.uri)
        self._filesystem, self._format = fs.SubTreeFileSystem(path, root), ds.ParquetFileFormat()

    def of(self, files: list[DataFile]) -> Any:
        """Return the rows of some files."""
        if not files:
            return self._schema.empty_table()
        return ds.FileSystemDataset(
            [self._fragment(one) for one in files], self._schema, self._format, self._filesystem
        )

    def _fragment(self, file: DataFile) -> ds.Fragment:
        known = ds.field(self._spec.partition) == file.partition
        if file.first is not None and file.last is not None:
            span = ds.field(self._spec.span)
            known = known & (span >= file.first) & (span <= file.last)
        return self._format.make_fragment(file.path, self._filesystem, known)


def _add_once(session: SqlSession, spec: TableSpec, data: _ArrowData, partitions: dict[str, list[DataFile]]) -> None:
    """Define a table of the rows that count.

    Unless the table repeats, a file has no two rows of one thing. So a partition of one file is read as it is, and only
    the newest partitions, which have several files, are sorted out: a query of a whole month needs no memory for all of
    it.
    """
    most = 0 if spec.repeats else 1
    whole = [file for files in partitions.values() if len(files) <= most for file in files]
    growing = [file for files in partitions.values() if len(files) > most for file in files]
    session.register(f"{spec.name}_whole", data.of(whole))
    session.register(f"{spec.name}_growing", data.of(growing))
    once = f"SELECT * FROM {spec.name}_growing {spec.once}"
    session.define(spec.name, f"SELECT * FROM {spec.name}_whole UNION ALL BY NAME ({once})")
