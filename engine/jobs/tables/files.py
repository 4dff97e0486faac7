"""The Parquet files of a table: writes, inspects and reads them; which of them count is in the table's log."""

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path, PurePosixPath
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from engine.jobs.runtime.storage_files import open_storage
from engine.jobs.tables.columns import Kind, TableSpec

_LOG = "_delta_log"
_TYPES: dict[Kind, pa.DataType] = {
    "text": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "flag": pa.bool_(),
    "longs": pa.list_(pa.int64()),
}


class DataFile(msgspec.Struct, frozen=True, order=True):
    """A file of a table, by its path below the table: its partition, size in bytes, rows, least and most of `span`.

    `first` and `last` are None if the file has no rows, or if its writer stored no statistics. `at_ms`: when it was
    written, in Unix ms.
    """

    path: str
    partition: str
    size: int
    rows: int
    first: int | None
    last: int | None
    at_ms: int = 0

    def overlaps(self, within: tuple[int, int]) -> bool:
        """Whether the file may have rows in [begin, end)."""
        return (self.first is None or self.first < within[1]) and (self.last is None or self.last >= within[0])


def arrow_schema(spec: TableSpec) -> pa.Schema:
    """Return the columns of a table as Arrow types."""
    return pa.schema([(column.name, _TYPES[column.kind]) for column in spec.columns])


class TableFiles:
    """The files below one table; `uri` as Spark takes it. Methods raise OSError and ArrowException."""

    def __init__(self, uri: str, spec: TableSpec) -> None:
        self._spec = spec
        self._fs, self._root = open_storage(uri)

    def write(self, name: str, partition: str, tables: Iterable[pa.Table]) -> DataFile | None:
        """Write a new file of a partition, a row group for each table; return None if no table has rows.

        A file that cannot be completed is deleted again.
        """
        path = f"{self._spec.partition}={partition}/{name}-{uuid4().hex}.parquet"
        some = (table for table in tables if table.num_rows)
        head = next(some, None)
        if head is None:
            return None
        self._fs.create_dir(f"{self._root}/{PurePosixPath(path).parent}", recursive=True)
        try:
            with (
                self._fs.open_output_stream(f"{self._root}/{path}") as stream,
                pq.ParquetWriter(stream, self._stored(head).schema, compression="zstd") as writer,
            ):
                for table in chain([head], some):
                    writer.write_table(self._stored(table))
        except BaseException:
            self.drop(path)
            raise
        return self.inspect(path, partition)

    def take_copy(self, path: str, partition: str) -> DataFile:
        """Copy a Parquet file of the same storage (`path`: in its file system) to a new file of a partition.

        Raises FileNotFoundError.
        """
        copy = f"{self._spec.partition}={partition}/copied-{uuid4().hex}.parquet"
        self._fs.create_dir(f"{self._root}/{PurePosixPath(copy).parent}", recursive=True)
        self._fs.copy_file(path, f"{self._root}/{copy}")
        return self.inspect(copy, partition)

    def _stored(self, table: pa.Table) -> pa.Table:
        """Leave out the partition column: its value is in the log, and its path."""
        return table.drop_columns([name for name in (self._spec.partition,) if name in table.column_names])

    def drop(self, path: str) -> bool:
        """Delete a file that no commit names; return whether it existed."""
        try:
            self._fs.delete_file(f"{self._root}/{path}")
        except FileNotFoundError:
            return False
        return True

    def is_there(self, file: DataFile) -> bool:
        """Whether a file exists."""
        return bool(self._fs.get_file_info(f"{self._root}/{file.path}").is_file)

    def inspect(self, path: str, partition: str) -> DataFile:
        """Return a file with what its footer says. Raises FileNotFoundError."""
        info = self._fs.get_file_info(f"{self._root}/{path}")
        with self._open(path) as parquet:
            spans = [span for _, span in self._spans(parquet)]
            rows = parquet.metadata.num_rows
        firsts, lasts = [one for one, _ in spans], [one for _, one in spans]
        first, last = min(firsts, default=None), max(lasts, default=None)
        return DataFile(path, partition, info.size or 0, rows, first, last, (info.mtime_ns or 0) // 1_000_000)

    def written_below(self, folder: str) -> list[tuple[str, str]]:
        """Return path and partition of the files that Spark wrote into a folder below the table."""
        selector = fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True, recursive=True)
        root, prefix = PurePosixPath(self._root), f"{self._spec.partition}="
        found = []
        for info in self._fs.get_file_info(selector):
            path = PurePosixPath(info.path).relative_to(root)
            values = [part.removeprefix(prefix) for part in path.parts if part.startswith(prefix)]
            hidden = any(part.startswith((".", "_")) for part in path.parts)
            if info.type is fs.FileType.File and path.suffix == ".parquet" and values and not hidden:
                found.append((str(path), values[0]))
        return sorted(found)

    def read(self, file: DataFile, schema: pa.Schema, within: tuple[int, int]) -> pa.Table:
        """Read the rows of a file whose `span` is in [begin, end), as the columns of `schema`; NULL where it has none.

        Raises FileNotFoundError.
        """
        with self._open(file.path) as parquet:
            there = set(parquet.schema_arrow.names)
            groups = [n for n, (first, last) in self._spans(parquet) if first < within[1] and last >= within[0]]
            wanted = [self._spec.span, *(name for name in schema.names if name in there and name != self._spec.span)]
            table = parquet.read_row_groups(groups, columns=wanted)
        span = table.column(self._spec.span)
        inside = pc.and_(pc.greater_equal(span, within[0]), pc.less(span, within[1]))
        if not pc.all(inside, min_count=0).as_py():
            table = table.filter(inside)
        return pa.table([self._column(table, file, field) for field in schema], schema=schema)

    def _column(self, table: pa.Table, file: DataFile, field: pa.Field) -> pa.ChunkedArray | pa.Array:
        if field.name == self._spec.partition:
            return pa.repeat(pa.scalar(file.partition, field.type), table.num_rows)
        if field.name not in table.column_names:
            return pa.nulls(table.num_rows, field.type)
        return table.column(field.name).cast(field.type)

    @contextmanager
    def _open(self, path: str) -> Iterator[pq.ParquetFile]:
        with self._fs.open_input_file(f"{self._root}/{path}") as opened:
            yield pq.ParquetFile(opened)

    def _spans(self, parquet: pq.ParquetFile) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yield the number, and least and most `span`, of each row group that has rows."""
        column = parquet.schema_arrow.names.index(self._spec.span)
        for number in range(parquet.metadata.num_row_groups):
            group = parquet.metadata.row_group(number)
            if group.num_rows:
                told = group.column(column).statistics
                yield number, (told.min, told.max)

    def drop_empty_folders(self, before_ms: int) -> int:
        """Delete empty folders last changed before a Unix time in ms; return how many. A bucket has no folders."""
        if not isinstance(self._fs, fs.LocalFileSystem):
            return 0
        return sum(
            _drop_if_empty(Path(folder), before_ms)
            for folder, _, _ in os.walk(self._root, topdown=False)
            if folder != self._root and _LOG not in Path(folder).parts
        )


def _drop_if_empty(folder: Path, before_ms: int) -> bool:
    try:
        if folder.stat().st_mtime * 1000 >= before_ms:
            return False
        folder.rmdir()
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            return False
        raise
    return True


def concatenated(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Return tables of one schema as one table, which may be empty."""
    return pa.concat_tables(tables) if tables else schema.empty_table()
