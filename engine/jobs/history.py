"""A history of windows, read hour by hour: every window once, whatever was written twice or is being compacted.

Rows of one window may be in many files, because a window is written again with each batch that adds to it, and by a
query that lost its checkpoint. The one made of the most samples counts, so merging has no order and may be repeated.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from engine.jobs.history_files import HistoryFiles, hour_of, live
from engine.jobs.storage_files import open_storage

BEGINS = "window_start_ms"
KEY = ("flow", "topic", "partition", "copier_key", BEGINS)
_RANK = ("samples", "last_ms")


def hour_text(at_ms: int) -> str:
    """Name the hour of an instant of Unix time, as folders do."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H")


def merged(tables: Sequence[pa.Table]) -> pa.Table:
    """Give every window of some tables once, in order of its key."""
    table = pa.concat_tables(tables, promote_options="permissive")
    order = [*((name, "ascending") for name in KEY), *((name, "descending") for name in _RANK)]
    table = table.take(pc.sort_indices(table, sort_keys=order))
    if table.num_rows < 2:
        return table
    news = pa.array([False] * (table.num_rows - 1))
    for name in KEY:
        column = table.column(name)
        news = pc.or_(news, pc.not_equal(column.slice(1), column.slice(0, table.num_rows - 1)))
    return table.filter(pa.concat_arrays([pa.array([True]), pc.fill_null(news, True).combine_chunks()]))


class History:
    """Reads what is committed; may be used while others write, compact and clear away."""

    def __init__(self, uri: str) -> None:
        self.files = HistoryFiles(uri)

    def hours(
        self, since_ms: int, until_ms: int, columns: Collection[str] | None = None
    ) -> Iterator[tuple[str, pa.Table]]:
        """Give the windows that begin from `since_ms` on and before `until_ms`, hour by hour, oldest first.

        `columns` beside those of the key. Only one hour is held in memory.
        """
        wanted = None if columns is None else sorted({*columns, *KEY, *_RANK})
        first, last, files = hour_text(since_ms), hour_text(until_ms - 1), self._by_hour()
        for hour in sorted(hour for hour in files if first <= hour <= last):
            table = self._hour(hour, files[hour], wanted)
            if table is None:
                continue
            begins = table.column(BEGINS)
            within = pc.and_(pc.greater_equal(begins, since_ms), pc.less(begins, until_ms))
            yield hour, table if pc.all(within).as_py() else table.filter(within)  # not copied where it is whole

    def _by_hour(self) -> dict[str, list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for file in live(self.files.commits().values()):
            found[hour_of(file)].append(file)
        return found

    def _hour(self, hour: str, files: list[str], columns: list[str] | None) -> pa.Table | None:
        """Read an hour, None where it has run out of retention.

        Where its files were replaced, and cleared away since they were listed, it is looked for again.
        """
        try:
            return merged([self.read(file, columns) for file in sorted(files)])
        except FileNotFoundError:
            now = self._by_hour().get(hour, [])
            if sorted(now) == sorted(files):
                raise
            return self._hour(hour, now, columns) if now else None

    def read(self, file: str, columns: list[str] | None = None, *, within: tuple[int, int] | None = None) -> pa.Table:
        """Read one file of data; a column that it does not have is left out.

        `within`: only windows that begin from an instant on, and before another.
        """
        with self._open(file) as parquet:
            names = None if columns is None else [name for name in columns if name in parquet.schema_arrow.names]
            if within is None:
                return parquet.read(columns=names)
            some = [n for n, (first, last) in _spans(parquet) if first < within[1] and last >= within[0]]
            table = parquet.read_row_groups(some, columns=names)
        begins = table.column(BEGINS)
        return table.filter(pc.and_(pc.greater_equal(begins, within[0]), pc.less(begins, within[1])))

    def span(self, file: str) -> tuple[int, int] | None:
        """Say when the first and the last window of a file begin, None where it has none."""
        with self._open(file) as parquet:
            spans = [span for _, span in _spans(parquet)]
        return (min(first for first, _ in spans), max(last for _, last in spans)) if spans else None

    def schema(self, file: str) -> pa.Schema:
        """Give the columns of a file."""
        with self._open(file) as parquet:
            return parquet.schema_arrow

    @contextmanager
    def _open(self, file: str) -> Iterator[pq.ParquetFile]:
        with self.files.filesystem.open_input_file(self.files.path(file)) as opened:
            yield pq.ParquetFile(opened)


def _spans(parquet: pq.ParquetFile) -> Iterator[tuple[int, tuple[int, int]]]:
    """Give number, first and last beginning of the row groups that have rows."""
    column = parquet.schema_arrow.names.index(BEGINS)
    for number in range(parquet.metadata.num_row_groups):
        group = parquet.metadata.row_group(number)
        if group.num_rows:
            told = group.column(column).statistics
            yield number, (told.min, told.max)


def histories(uri: str) -> list[History]:
    """Give every history below a folder: one for each source and target, in folders of these names."""
    files, root = open_storage(uri)
    found = [f"{source}/{target}" for source in _folders(files, root) for target in _folders(files, f"{root}/{source}")]
    return [History(f"{uri}/{name}") for name in found]


def _folders(files: fs.FileSystem, path: str) -> list[str]:
    found = files.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return sorted(one.base_name for one in found if one.type is fs.FileType.Directory)
