"""Reads the audit trail of earlier versions, and copies its rows into the table `audit`.

<storage>/audit/2026-05-01/<anything>.parquet      a day in UTC; equal rows count as one
"""

import re
from collections import defaultdict
from datetime import date
from pathlib import PurePosixPath

import pyarrow as pa

from engine.config.storage import Storage
from engine.jobs.tables.catalog import AUDIT
from engine.jobs.tables.files import arrow_schema
from engine.jobs.tables.log import Batch
from engine.jobs.tables.table import Table
from engine.jobs.upgrade.old_files import OldFiles

_DAY = re.compile(r"\d{4}-\d\d-\d\d")


class OldAudit:
    """The audit trail of a storage: an `OldStore`."""

    what = "the audit trail"
    table = AUDIT.name

    def places(self, storage: Storage) -> list[str]:
        """Return the URI of the trail unless it is converted. Raises OSError."""
        files = OldFiles(storage.path("audit"))
        return [files.uri] if _by_day(files) and not files.is_marked() else []

    def convert(self, storage: Storage, place: str) -> int:
        """Add the rows to the table, day by day; return their number.

        Each day is a batch of its own, so an interrupted conversion continues after the last one. Raises TableError,
        NewerFormat, OldFileDamaged, OSError.
        """
        files, table = OldFiles(place), Table(storage.path("tables", AUDIT.name), AUDIT)
        table.create()
        added = 0
        for day, paths in sorted(_by_day(files).items()):
            rows = _distinct(files, paths)
            batch = Batch("conversion of audit", date.fromisoformat(day).toordinal())
            if not _is_committed(table, batch):
                table.append(rows, batch)
                added += rows.num_rows
        files.mark(table.uri)
        return added


def _is_committed(table: Table, batch: Batch) -> bool:
    last = table.committed(batch.writer)
    return last is not None and last >= batch.number


def _by_day(files: OldFiles) -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in files.paths():
        day = PurePosixPath(path).parts[0]
        if _DAY.fullmatch(day):
            found[day].append(path)
    return found


def _distinct(files: OldFiles, paths: list[str]) -> pa.Table:
    """Return the rows of a day, each once, oldest first, with their day by their own time."""
    schema = arrow_schema(AUDIT)
    rows = pa.concat_tables([files.read(path, schema) for path in paths]).drop_columns([AUDIT.partition])
    rows = rows.group_by(rows.column_names, use_threads=False).aggregate([]).sort_by(AUDIT.span)
    days = [AUDIT.partition_of(at_ms) for at_ms in rows.column(AUDIT.span).to_pylist()]
    return rows.append_column(AUDIT.partition, pa.array(days, pa.string())).select(schema.names)
