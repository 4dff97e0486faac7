"""The audit trail as Parquet files below `raymirror.storage`: audit/DAY/MILLISECONDS-RUN.parquet, days in UTC.

A file is whole or not there. A batch of which it is not known whether it was written is written again under another
name: rows that are equal are the same row.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from engine.flow.audit import AuditFailed, AuditRow
from engine.jobs.storage import Storage
from engine.jobs.storage_files import open_storage
from engine.settings import MirrorConfig

_ENDING = ".parquet"


class ParquetAudit:
    """Rows written and read; pyarrow is imported with the first."""

    def __init__(self, storage: Storage) -> None:
        self.where = storage.path("audit")

    async def write(self, rows: Sequence[AuditRow]) -> None:
        """Keep rows in a file of their own, in a thread. Raises AuditFailed."""
        await asyncio.to_thread(self._write, rows)

    def _write(self, rows: Sequence[AuditRow]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_pylist([msgspec.structs.asdict(row) for row in rows], schema=_schema(pa))
        try:
            files, root = open_storage(self.where)
            folder = f"{root}/{_day(rows[0].at_ms)}"
            files.create_dir(folder, recursive=True)
            path = f"{folder}/{rows[0].at_ms}-{rows[0].run}-{len(rows)}{_ENDING}"
            # A reader goes by the ending, so it never meets half a file.
            pq.write_table(table, f"{path}.part", filesystem=files)
            files.move(f"{path}.part", path)
        except (OSError, pa.ArrowException) as error:
            raise AuditFailed(self.where, f"cannot be written: {error}") from None

    def read(self, *, since_ms: int = 0, about: str | None = None, flow: str | None = None) -> list[AuditRow]:
        """Return the rows from a moment on, in order; `about`: of a topic, by its name on either side.

        Raises AuditFailed.
        """
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.dataset as ds

        wanted = pc.field("at_ms") >= since_ms
        if about is not None:
            wanted &= (pc.field("topic") == about) | (pc.field("target") == about)
        if flow is not None:
            wanted &= pc.field("flow") == flow
        try:
            files, root = open_storage(self.where)
            paths = self._files(files, root, _day(since_ms))
            found = ds.dataset(paths, filesystem=files, format="parquet", schema=_schema(pa)).to_table(filter=wanted)
        except (OSError, pa.ArrowException) as error:
            raise AuditFailed(self.where, f"cannot be read: {error}") from None
        rows = dict.fromkeys(msgspec.convert(one, AuditRow) for one in found.to_pylist())
        return sorted(rows, key=lambda row: row.at_ms)

    @staticmethod
    def _files(files: Any, root: str, first_day: str) -> list[str]:
        from pyarrow import fs

        found = files.get_file_info(fs.FileSelector(root, allow_not_found=True, recursive=True))
        paths = [one.path for one in found if one.type == fs.FileType.File and one.path.endswith(_ENDING)]
        return sorted(path for path in paths if path.rsplit("/", 2)[-2] >= first_day)


def audit_store(config: MirrorConfig) -> ParquetAudit | None:
    """Return where a configuration keeps its trail; None where it names no storage."""
    return ParquetAudit(config.storage) if config.storage is not None else None


def _schema(pa: Any) -> Any:
    fields = msgspec.structs.fields(AuditRow)
    return pa.schema([(one.name, pa.int64() if one.type is int else pa.string()) for one in fields])


def _day(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d")
