"""Stores the same windows as the table `lag`, and in the layout that came before Delta Lake.

    <folder>/table/tables/lag/hour=2026-05-01T12/....parquet, _delta_log
    <folder>/commits/history/lag/A/B/data/hour=2026-05-01T12/....parquet, commits/....json

Both are as maintenance leaves them: one file for each hour. Both layouts write that file with the same writer and the
same settings, so the second store gets a copy of it; the layouts differ in what names the files that count.
"""

import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Literal
from uuid import uuid4

import msgspec
import pyarrow as pa

from bench.errors import BenchError
from bench.history.rows import FLOW, HOUR_MS, hour_of
from engine.base.clock import wall_ms
from engine.config.storage import Storage
from engine.jobs.lag.options import lag_table_uri
from engine.jobs.tables.catalog import LAG
from engine.jobs.tables.files import DataFile
from engine.jobs.tables.table import Table
from engine.jobs.upgrade.old_history import old_history_uri

Layout = Literal["table", "commits"]
_STORED = "stored.json"


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """What a store has on disk: bytes and number of all its files, and of those the Parquet files."""

    bytes: int
    files: int
    parquet_bytes: int
    parquet_files: int


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """A history on disk: the hours from `begin_ms` to before `end_ms`. `write_cpu_s`: of the table's Parquet files."""

    lanes: int
    hours: int
    begin_ms: int
    end_ms: int
    rows: int
    write_cpu_s: float
    sizes: dict[Layout, Size]


def storage_uri(folder: Path, layout: Layout) -> str:
    """Return the storage of a layout, as the commands take it."""
    return f"file:{folder}/{layout}"


def read_stored(folder: Path) -> Stored | None:
    """Return what an earlier run stored in a folder; None if nothing, or not all of it."""
    try:
        return msgspec.json.decode((folder / _STORED).read_bytes(), type=Stored)
    except FileNotFoundError:
        return None


def store(folder: Path, lanes: int, hours: int, *, commits: bool) -> Stored:
    """Store hours that end now; `commits`: also in the layout before Delta Lake. Raises BenchError."""
    table = Table(lag_table_uri(Storage.parse(storage_uri(folder, "table"))), LAG)
    table.create()
    old = _path(old_history_uri(Storage.parse(storage_uri(folder, "commits")), FLOW))
    rows, cpu_s = 0, 0.0
    end_ms = wall_ms() // HOUR_MS * HOUR_MS
    begin_ms = end_ms - hours * HOUR_MS
    for hour_ms in range(begin_ms, end_ms, HOUR_MS):
        made = list(hour_of(lanes, hour_ms))
        began_s = time.process_time()
        file = _add(table, hour_ms, made)
        cpu_s += time.process_time() - began_s
        rows += file.rows
        if commits:
            _add_copy(old, hour_ms, table, file)
        print(f"{file.partition}: {rows:,} rows", flush=True)
    layouts: tuple[Layout, ...] = ("table", "commits") if commits else ("table",)
    stored = Stored(
        lanes=lanes,
        hours=hours,
        begin_ms=begin_ms,
        end_ms=end_ms,
        rows=rows,
        write_cpu_s=round(cpu_s, 1),
        sizes={layout: _size(folder / layout) for layout in layouts},
    )
    (folder / _STORED).write_bytes(msgspec.json.encode(stored))
    return stored


def _add(table: Table, hour_ms: int, made: Iterable[pa.Table]) -> DataFile:
    file = table.files.write("bench", LAG.partition_of(hour_ms), made)
    if file is None or not table.commit([file]):
        raise BenchError("history", f"the hour {LAG.partition_of(hour_ms)} was not stored")
    return file


def _add_copy(old: Path, hour_ms: int, table: Table, file: DataFile) -> None:
    """Copy the file of an hour, and commit the copy: a commit was a file of JSON that named what counts."""
    name = f"hour={LAG.partition_of(hour_ms)}/compacted-{uuid4().hex}.parquet"
    (old / "data" / name).parent.mkdir(parents=True)
    shutil.copyfile(_path(table.uri) / file.path, old / "data" / name)
    (old / "commits").mkdir(exist_ok=True)
    commit = {"at_ms": wall_ms(), "adds": [name], "removes": [], "format": 1}
    (old / "commits" / f"compact-{uuid4().hex}.json").write_bytes(msgspec.json.encode(commit))


def _path(uri: str) -> Path:
    return Path(uri.removeprefix("file:"))


def _size(folder: Path) -> Size:
    sizes = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    parquet = [size for path, size in sizes.items() if path.match("hour=*/*.parquet")]
    return Size(bytes=sum(sizes.values()), files=len(sizes), parquet_bytes=sum(parquet), parquet_files=len(parquet))
