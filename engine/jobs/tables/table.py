"""One Delta table: creates it, commits files to it, replaces files of a partition, and lists the files that count."""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction

from engine.jobs.tables.columns import TableSpec
from engine.jobs.tables.errors import FilesLost, TableConflict, TableDamaged, TableMissing, table_errors
from engine.jobs.tables.files import DataFile, TableFiles, arrow_schema
from engine.jobs.tables.log import ORPHAN_H, TRIES, Batch, check, create, is_committed, lock_of, opened


class TableSnapshot:
    """The files that count at one version of a table, and the columns that it had."""

    def __init__(self, handle: DeltaTable, spec: TableSpec) -> None:
        self._handle = handle
        self.version = handle.version()
        self.schema = pa.schema(handle.schema().to_arrow())
        self.files = tuple(sorted(_files(handle, spec)))

    def partitions(self) -> dict[str, list[DataFile]]:
        """Return the files of each partition, oldest partition first."""
        found: defaultdict[str, list[DataFile]] = defaultdict(list)
        for file in self.files:
            found[file.partition].append(file)
        return dict(sorted(found.items()))


def _files(handle: DeltaTable, spec: TableSpec) -> list[DataFile]:
    names = ("path", f"partition.{spec.partition}", "size_bytes", "num_records", *_limits(spec), "modification_time")
    told = pa.table(handle.get_add_actions(flatten=True))
    rows = told.select([name for name in names if name in told.column_names]).to_pylist()
    return [DataFile(*(row.get(name) for name in names)) for row in rows]


def _limits(spec: TableSpec) -> tuple[str, str]:
    return f"min.{spec.span}", f"max.{spec.span}"


def _unused(handle: DeltaTable, hours: int | None, *, full: bool) -> set[str]:
    """Return files that do not count, perhaps deleted already: replaced ones that the log names, or (`full`) all.

    `hours`: since when at least; None: the table's own limit.
    """
    return set(handle.vacuum(hours, dry_run=True, enforce_retention_duration=False, full=full))


class Table:
    """One table; `uri` as Spark takes it. Methods raise TableError, and NewerFormat on a table of a newer version.

    Several threads and processes may use one table, each with an object of its own or with one that they share.
    """

    def __init__(self, uri: str, spec: TableSpec) -> None:
        self.uri, self.spec = uri, spec
        self.files = TableFiles(uri, spec)
        self._lock = lock_of(uri)
        self._handle: DeltaTable | None = None
        self._deleted = set[str]()

    def exists(self) -> bool:
        """Whether the table was created."""
        try:
            with table_errors(self.uri):
                opened(self.uri, self.spec)
        except TableMissing:
            return False
        return True

    def create(self) -> None:
        """Create the table unless it exists; add the columns that it lacks."""
        with self._lock, table_errors(self.uri):
            create(self.uri, self.spec, Schema.from_arrow(arrow_schema(self.spec)))

    def snapshot(self) -> TableSnapshot:
        """Return the files that count now."""
        with table_errors(self.uri):
            return TableSnapshot(opened(self.uri, self.spec), self.spec)

    def committed(self, writer: str) -> int | None:
        """Return the number of the last batch that a writer committed; None if it never did."""
        with self._lock, table_errors(self.uri):
            return self._newest().transaction_version(writer)

    def has(self, batch: Batch) -> bool:
        """Whether a batch is committed already.

        Raises StaleCommit if a later batch of its writer is, OtherBatch if one of its number from other records is.
        """
        with self._lock, table_errors(self.uri):
            return is_committed(self._newest(), self.uri, batch)

    def append(self, rows: pa.Table, batch: Batch | None = None) -> bool:
        """Commit rows, which must have every column; return False if the batch is committed already.

        Raises StaleCommit if a later batch is.
        """
        try:
            return self.commit(self._written(rows), batch)
        except FilesLost:
            return self.commit(self._written(rows), batch)

    def _written(self, rows: pa.Table) -> list[DataFile]:
        """Write the files of some rows, one for each partition."""
        with table_errors(self.uri):
            rows = rows.select(arrow_schema(self.spec).names).cast(arrow_schema(self.spec))
            column = rows.column(self.spec.partition)
            parts = {value: rows.filter(pc.equal(column, value)) for value in pc.unique(column).to_pylist()}
            written = [self.files.write("rows", value, [part]) for value, part in parts.items()]
        return [file for file in written if file is not None]

    def adopt(
        self, folder: str, batch: Batch | None = None, is_empty: Callable[[], bool] = lambda: True
    ) -> tuple[DataFile, ...] | None:
        """Commit the files that Spark wrote into a folder below the table, `.../<partition column>=<value>/*.parquet`.

        Returns them, or None if the batch is committed already. `is_empty` says, of a folder without files, whether
        Spark had no rows to write. Raises StaleCommit if a later batch is committed, FilesLost if files are gone.
        """
        with table_errors(self.uri):
            found = tuple(self.files.inspect(path, value) for path, value in self.files.written_below(folder))
        if not found and not is_empty():
            raise FilesLost(self.uri, f"the files in {folder} were deleted before their commit")
        files = tuple(file for file in found if file.rows)
        return files if self.commit(files, batch) else None

    def commit(self, files: Sequence[DataFile], batch: Batch | None = None) -> bool:
        """Add files, whole or not at all; return False if the batch is committed already.

        Raises StaleCommit and OtherBatch as `has` does, and FilesLost if a file was deleted: the commit would leave the
        table damaged for good.
        """
        with self._lock, table_errors(self.uri):
            for attempt in range(TRIES):
                handle = self._newest()
                if batch is not None and is_committed(handle, self.uri, batch):
                    return False
                if not files and batch is None:
                    return True
                self._refuse_lost(files)
                try:
                    with table_errors(self.uri):
                        self._write(handle, files, "append", batch=batch)
                except TableConflict:
                    if attempt == TRIES - 1:
                        raise
                else:
                    return True
        raise AssertionError("the loop returns or raises")

    def replace(self, snapshot: TableSnapshot, partition: str, files: Sequence[DataFile]) -> None:
        """Put files in the place of those that a snapshot has of a partition; files that were added since stay.

        A snapshot serves one call. Raises TableConflict if any file of the snapshot was replaced since, or if the new
        files were deleted because this process slept.
        """
        with self._lock, table_errors(self.uri):
            self._refuse_lost(files)
            self._write(snapshot._handle, files, "overwrite", partition)  # noqa: SLF001 its pinned version

    def _refuse_lost(self, files: Sequence[DataFile]) -> None:
        """Raise FilesLost if a file is not there: this process slept for so long that it was vacuumed as an orphan."""
        if lost := [file.path for file in files if not self.files.is_there(file)]:
            raise FilesLost(self.uri, f"{lost[0]} was deleted before its commit")

    def _write(
        self,
        handle: DeltaTable,
        files: Sequence[DataFile],
        mode: str,
        partition: str | None = None,
        batch: Batch | None = None,
    ) -> None:
        handle.create_write_transaction(
            [self._added(file) for file in files],
            mode,
            handle.schema(),
            [self.spec.partition],
            None if partition is None else [(self.spec.partition, "=", partition)],
            commit_properties=CommitProperties(app_transactions=[] if batch is None else batch.transactions()),
        )

    def _added(self, file: DataFile) -> AddAction:
        told: dict[str, object] = {"numRecords": file.rows}
        if file.first is not None:
            told |= {"minValues": {self.spec.span: file.first}, "maxValues": {self.spec.span: file.last}}
        values = {self.spec.partition: file.partition}
        return AddAction(file.path, file.size, values, file.at_ms, data_change=True, stats=json.dumps(told))

    def still_wants(self, files: Sequence[DataFile], partition: str, missing: FileNotFoundError) -> list[DataFile]:
        """Return the present files of a partition after one of `files` was not found: others replaced it meanwhile.

        Raises TableDamaged if the partition still has all of `files`.
        """
        present = self.snapshot().partitions().get(partition, [])
        if set(files) <= set(present):
            raise TableDamaged(self.uri, f"a file that counts is missing: {missing}")
        return present

    def vacuum(self, now_ms: int) -> int:
        """Delete files that were replaced a quarter of an hour ago, and files without a commit after an hour.

        Returns the number of files. Deltalake says which; it does not delete them, because it would write two commits
        into the log each time, and would find the same replaced files again.
        """
        with self._lock, table_errors(self.uri):  # no commit of this process may name an orphan meanwhile
            handle = self._newest()
            orphans = _unused(handle, ORPHAN_H, full=True) - self._deleted
            deleted = sum(self.files.drop(path) for path in orphans)
            replaced = _unused(handle, None, full=False)
        with table_errors(self.uri):
            deleted += sum(self.files.drop(path) for path in replaced - self._deleted)
            self._deleted = replaced  # the log names them for some time after
            self.files.drop_empty_folders(now_ms - ORPHAN_H * 3_600_000)
        return deleted

    def _newest(self) -> DeltaTable:
        """Return the handle of this object at the newest version; the caller has the lock."""
        if self._handle is not None:
            try:
                self._handle.update_incremental()
            except (DeltaError, OSError):
                self._handle = None  # the commits since may be deleted: open the table as others do
        handle = self._handle = opened(self.uri, self.spec) if self._handle is None else self._handle
        check(handle, self.uri, self.spec)
        return handle
