"""Reads a history of windows, some minutes at a time: every window once, even if it was written several times.

Rows of one window may be in many files: each batch that adds to a window writes it again, and so does a query that lost
its checkpoint. The row with the most samples counts, so merging needs no order and may be repeated.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from engine.jobs.history.files import HistoryFiles, hour_of, live
from engine.jobs.runtime.storage_files import open_storage

BEGINS = "window_start_ms"
STRETCH_MS = 300_000
"""Length in ms of the stretch of windows in memory, and in a row group: an hour may have 1.2 million windows."""
KEY = ("flow", "topic", "partition", "copier_key", BEGINS)
_RANK = ("samples", "last_ms")


def hour_text(at_ms: int) -> str:
    """Return the hour of a Unix time in ms, as in the names of folders."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H")


def merged(tables: Sequence[pa.Table]) -> pa.Table:
    """Return every window of some tables once, in order of its key."""
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
    """Reads committed windows; safe while others write, compact and delete."""

    def __init__(self, uri: str) -> None:
        self.files = HistoryFiles(uri)

    def windows(self, since_ms: int, until_ms: int, columns: Collection[str] | None = None) -> Iterator[pa.Table]:
        """Yield tables of the windows that begin in [since_ms, until_ms), oldest first; no table spans two hours.

        `columns`: those to read in addition to the key. Memory holds only one stretch of some minutes.
        """
        wanted = None if columns is None else sorted({*columns, *KEY, *_RANK})
        first, last, files = hour_text(since_ms), hour_text(until_ms - 1), self._by_hour()
        for hour in sorted(hour for hour in files if first <= hour <= last):
            yield from self._hour(hour, files[hour], (since_ms, until_ms), wanted)

    def _by_hour(self) -> dict[str, list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for file in live(self.files.commits().values()):
            found[hour_of(file)].append(file)
        return found

    def _hour(
        self, hour: str, files: list[str], within: tuple[int, int], columns: list[str] | None
    ) -> Iterator[pa.Table]:
        """Read an hour; nothing of an hour that retention has deleted.

        If its files were replaced and deleted since they were listed, continue with the present files.
        """
        at_ms = within[0]
        try:
            for start_ms, table in self.stretches(files, within, columns):
                yield table
                at_ms = start_ms + STRETCH_MS
        except FileNotFoundError:
            now = self._by_hour().get(hour, [])
            if sorted(now) == sorted(files):
                raise
            yield from self._hour(hour, now, (at_ms, within[1]), columns)

    def stretches(
        self, files: Iterable[str], within: tuple[int, int] | None = None, columns: list[str] | None = None
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield every window of some files once, in stretches of `STRETCH_MS`, each with its start in Unix ms."""
        spans = {file: span for file in sorted(files) if (span := self.span(file))}
        first, last = (
            min((one for one, _ in spans.values()), default=0),
            max((one for _, one in spans.values()), default=-1),
        )
        low, high = (first, last + 1) if within is None else (max(first, within[0]), min(last + 1, within[1]))
        for start_ms in range(low // STRETCH_MS * STRETCH_MS, high, STRETCH_MS):
            part = max(start_ms, low), min(start_ms + STRETCH_MS, high)
            some = [file for file, (begin, end) in spans.items() if begin < part[1] and end >= part[0]]
            if some and (table := merged([self.read(file, columns, within=part) for file in some])).num_rows:
                yield start_ms, table

    def read(self, file: str, columns: list[str] | None = None, *, within: tuple[int, int]) -> pa.Table:
        """Read the windows of one file that begin in the interval `within`; leave out columns that it does not have."""
        with self._open(file) as parquet:
            names = None if columns is None else [name for name in columns if name in parquet.schema_arrow.names]
            some = [n for n, (first, last) in _spans(parquet) if first < within[1] and last >= within[0]]
            table = parquet.read_row_groups(some, columns=names)
        begins = table.column(BEGINS)
        wanted = pc.and_(pc.greater_equal(begins, within[0]), pc.less(begins, within[1]))
        return table if pc.all(wanted).as_py() else table.filter(wanted)  # no copy if all rows are wanted

    def span(self, file: str) -> tuple[int, int] | None:
        """Return the starts of the first and the last window of a file in Unix ms; None if it has no rows."""
        with self._open(file) as parquet:
            spans = [span for _, span in _spans(parquet)]
        return (min(first for first, _ in spans), max(last for _, last in spans)) if spans else None

    def schema(self, file: str) -> pa.Schema:
        """Return the columns of a file."""
        with self._open(file) as parquet:
            return parquet.schema_arrow

    @contextmanager
    def _open(self, file: str) -> Iterator[pq.ParquetFile]:
        with self.files.filesystem.open_input_file(self.files.path(file)) as opened:
            yield pq.ParquetFile(opened)


def _spans(parquet: pq.ParquetFile) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield the number, and the first and last window start, of each row group that has rows."""
    column = parquet.schema_arrow.names.index(BEGINS)
    for number in range(parquet.metadata.num_row_groups):
        group = parquet.metadata.row_group(number)
        if group.num_rows:
            told = group.column(column).statistics
            yield number, (told.min, told.max)


def histories(uri: str) -> list[History]:
    """Return every history below a folder: one per pair of source and target, in `<source>/<target>`."""
    files, root = open_storage(uri)
    found = [f"{source}/{target}" for source in _folders(files, root) for target in _folders(files, f"{root}/{source}")]
    return [History(f"{uri}/{name}") for name in found]


def _folders(files: fs.FileSystem, path: str) -> list[str]:
    found = files.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return sorted(one.base_name for one in found if one.type is fs.FileType.Directory)
