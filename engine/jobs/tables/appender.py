"""Appends rows of Python to a small table, and maintains it, by deltalake alone: without pyarrow and without Spark.

The metadata actor does this. pyarrow and its way to write Parquet would take 70 MB of its memory more.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from deltalake import CommitProperties, DeltaTable, Field, Schema, WriterProperties, write_deltalake
from deltalake.schema import PrimitiveType

from engine.jobs.tables.columns import TableSpec
from engine.jobs.tables.errors import TableConflict, TableMissing, table_errors
from engine.jobs.tables.log import ORPHAN_H, TRIES, Batch, create, is_committed, lock_of, opened
from engine.jobs.tables.options import expiry_ms

_DELTA = {"text": "string", "int": "integer", "long": "long", "double": "double", "flag": "boolean"}


def delta_schema(spec: TableSpec) -> Schema:
    """Return the columns of a table as Delta types. Raises KeyError if one is a list."""
    return Schema([Field(one.name, PrimitiveType(_DELTA[one.kind])) for one in spec.columns])


class TableAppender:
    """One table without columns of lists; `uri` as Spark takes it. Methods raise TableError and NewerFormat.

    Several processes and threads may use one table at once.
    """

    def __init__(self, uri: str, spec: TableSpec) -> None:
        self.uri, self.spec = uri, spec
        self._lock = lock_of(uri)

    def append(self, rows: Sequence[Mapping[str, Any]], batch: Batch | None = None) -> bool:
        """Commit rows as one, each with every column but that of the partition; create the table if there is none.

        Returns False if the batch is committed already. Raises StaleCommit if a later batch is.
        """
        data = _arrow(self.spec, rows)
        with self._lock, table_errors(self.uri):
            for attempt in range(TRIES):
                handle = create(self.uri, self.spec, delta_schema(self.spec))
                if batch is not None and is_committed(handle, self.uri, batch):
                    return False
                try:
                    with table_errors(self.uri):
                        self._write(handle, data, batch)
                except TableConflict:
                    if attempt == TRIES - 1:
                        raise
                else:
                    return True
        raise AssertionError("the loop returns or raises")

    def _write(self, handle: DeltaTable, data: Any, batch: Batch | None) -> None:
        write_deltalake(
            handle,
            data,
            mode="append",
            schema_mode="merge",  # a newer version may have added columns: NULL in these rows
            writer_properties=WriterProperties(compression="ZSTD"),
            commit_properties=CommitProperties(app_transactions=[] if batch is None else batch.transactions()),
        )

    def tidy(self, now_ms: int, keep_ms: int = 0) -> None:
        """Take out partitions older than `keep_ms` (0: none; `expiry_ms`), make one file of the files of each past one.

        Deletes files that have not counted for an hour. If another process changes the same files at the same time, its
        change stays, and the rest waits for the next call.
        """
        with self._lock, table_errors(self.uri):
            try:
                with table_errors(self.uri):
                    if keep_ms:
                        self._expire(now_ms, keep_ms)
                    self._fold(self.spec.partition_of(now_ms))
            except (TableConflict, TableMissing):
                return
            self._vacuum()

    def _expire(self, now_ms: int, keep_ms: int) -> None:
        handle = opened(self.uri, self.spec)
        newest = _newest_by_partition(handle, self.spec)
        before_ms = expiry_ms(newest.values(), now_ms, keep_ms)
        if before_ms is not None and min(newest) < (first := self.spec.partition_of(before_ms)):
            old = [(self.spec.partition, "<", first)]
            handle.create_write_transaction([], "overwrite", handle.schema(), [self.spec.partition], old)

    def _fold(self, now: str) -> None:
        handle = opened(self.uri, self.spec)
        if any(files > 1 for partition, files in _files_by_partition(handle, self.spec).items() if partition < now):
            handle.optimize.compact(partition_filters=[(self.spec.partition, "<", now)])

    def _vacuum(self) -> None:
        handle = opened(self.uri, self.spec)
        if handle.vacuum(ORPHAN_H, dry_run=True, enforce_retention_duration=False, full=True):
            handle.vacuum(ORPHAN_H, dry_run=False, enforce_retention_duration=False, full=True)


def _files_by_partition(handle: DeltaTable, spec: TableSpec) -> Counter[str]:
    return Counter(handle.get_add_actions(flatten=True).column(f"partition.{spec.partition}").to_pylist())


def _newest_by_partition(handle: DeltaTable, spec: TableSpec) -> dict[str, int]:
    """Return the time in Unix ms of the newest row of each partition; a file without statistics has none."""
    told = handle.get_add_actions(flatten=True)
    name = f"max.{spec.span}"
    lasts = list(told.column(name).to_pylist()) if name in told.column_names else []
    found: dict[str, int] = {}
    for partition, last in zip(told.column(f"partition.{spec.partition}").to_pylist(), lasts, strict=False):
        if last is not None:
            found[partition] = max(last, found.get(partition, last))
    return found


def _arrow(spec: TableSpec, rows: Sequence[Mapping[str, Any]]) -> Any:
    """Make an Arrow table by what deltalake brings along."""
    from arro3.core import Array, DataType, Table

    types = {
        "text": DataType.string(),
        "int": DataType.int32(),
        "long": DataType.int64(),
        "double": DataType.float64(),
        "flag": DataType.bool(),
    }
    values: dict[str, list[Any]] = {one.name: [row.get(one.name) for row in rows] for one in spec.columns}
    values[spec.partition] = [spec.partition_of(at_ms) for at_ms in values[spec.span]]
    return Table.from_pydict({one.name: Array(values[one.name], types[one.kind]) for one in spec.columns})
