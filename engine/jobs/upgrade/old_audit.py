"""Reads the audit trail of earlier versions, and copies its rows into the table `audit`.

<storage>/audit/2026-05-01/<anything>.parquet      a day in UTC; equal rows count as one
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from hashlib import sha256
from pathlib import PurePosixPath

import pyarrow as pa

from engine.config.storage import Storage
from engine.jobs.tables.catalog import AUDIT
from engine.jobs.tables.files import arrow_schema
from engine.jobs.tables.log import Batch
from engine.jobs.tables.reading import read
from engine.jobs.tables.table import Table
from engine.jobs.upgrade.old_files import Added, OldFiles

_DAY = re.compile(r"\d{4}-\d\d-\d\d")


class OldAudit:
    """The audit trail of a storage: an `OldStore`."""

    what = "the audit trail"
    table = AUDIT.name

    def places(self, storage: Storage) -> list[str]:
        """Return the URI of the trail unless all of it is converted. Raises OSError."""
        files = OldFiles(storage.path("audit"))
        return [files.uri] if files.late(_paths(files)) else []

    def convert(self, storage: Storage, place: str) -> Added:
        """Add the rows to the table, day by day.

        Only rows that the table does not have yet are added, so a day to which a mirror of an earlier version has
        written since is converted again. Raises TableError, NewerFormat, OldFileDamaged, OSError.
        """
        files, table = OldFiles(place), Table(storage.path("tables", AUDIT.name), AUDIT)
        table.create()
        paths, rows, missing = _paths(files), 0, 0
        for day, some in sorted(_by_day(files.late(paths)).items()):
            found = [_read(files, path) for path in some]
            missing += found.count(None)
            new = _unknown(table, _distinct([one for one in found if one is not None]))
            if new.num_rows and table.append(new, Batch(f"conversion of audit {day} {_digest(some)}", 0)):
                rows += new.num_rows
        files.mark(table.uri, paths)
        return Added(rows=rows, missing=missing)


def _paths(files: OldFiles) -> list[str]:
    return [path for path in files.paths() if _DAY.fullmatch(PurePosixPath(path).parts[0])]


def _by_day(paths: Iterable[str]) -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in paths:
        found[PurePosixPath(path).parts[0]].append(path)
    return found


def _digest(paths: list[str]) -> str:
    """Name a set of files: with a file more, a day is another batch."""
    return sha256("\n".join(paths).encode()).hexdigest()[:16]


def _read(files: OldFiles, path: str) -> pa.Table | None:
    """Read a file; None if it is gone: a mirror of an earlier version makes one file of those of a day."""
    try:
        return files.read(path, arrow_schema(AUDIT), AUDIT.span)
    except FileNotFoundError:
        return None


def _distinct(tables: list[pa.Table]) -> pa.Table:
    """Return rows, each once, oldest first, with their day by their own time."""
    schema = arrow_schema(AUDIT)
    rows = pa.concat_tables([schema.empty_table(), *tables]).drop_columns([AUDIT.partition])
    rows = rows.group_by(rows.column_names, use_threads=False).aggregate([]).sort_by(AUDIT.span)
    days = [AUDIT.partition_of(at_ms) for at_ms in rows.column(AUDIT.span).to_pylist()]
    return rows.append_column(AUDIT.partition, pa.array(days, pa.string())).select(schema.names)


def _unknown(table: Table, rows: pa.Table) -> pa.Table:
    """Return the rows that a table does not have."""
    times = rows.column(AUDIT.span).to_pylist()
    if not times:
        return rows
    stored = read(table, (times[0], times[-1] + 1))
    known = {tuple(row.values()) for some in stored for row in some.select(rows.column_names).to_pylist()}
    return rows.filter(pa.array([tuple(row.values()) not in known for row in rows.to_pylist()]))
