"""Stores the audit trail as Parquet files below `raymirror.storage`: audit/DAY/MILLISECONDS-RUN.parquet, days in UTC.

A file exists whole or not at all. If it is unknown whether a batch was written, the batch is written again under
another name: equal rows count as one row. Past days are merged, and finally deleted (`care.py`).
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import msgspec

from engine.config.settings import MirrorConfig
from engine.config.storage import Storage
from engine.flow.config_sync.audit import AuditFailed, AuditRow
from engine.jobs.runtime.storage_files import open_storage

_DAY_MS = 86_400_000
_LISTINGS = 3
"""How often a trail is listed at most, if its files are merged while they are read."""


class ParquetAudit:
    """Writes and reads audit rows; imports pyarrow at the first use. `keep_days` 0: rows stay for ever."""

    def __init__(self, storage: Storage, keep_days: int = 0) -> None:
        self.where = storage.path("audit")
        self._keep_days = keep_days
        self._cared = ""
        """The last day on which `care` ran, whether it succeeded or not."""

    async def write(self, rows: Sequence[AuditRow]) -> None:
        """Write rows to a new file for each day, in a thread. Raises AuditFailed."""
        await asyncio.to_thread(self._write, rows)

    def _write(self, rows: Sequence[AuditRow]) -> None:
        import pyarrow as pa

        from engine.jobs.audit.care import ENDING, write_whole

        try:
            files, root = open_storage(self.where)
            for day, found in groupby(sorted(rows, key=lambda row: row.at_ms), lambda row: _day(row.at_ms)):
                of_day = list(found)
                table = pa.Table.from_pylist([msgspec.structs.asdict(row) for row in of_day], schema=_schema(pa))
                files.create_dir(f"{root}/{day}", recursive=True)
                name = f"{of_day[0].at_ms}-{of_day[0].run}-{len(of_day)}{ENDING}"
                write_whole(files, f"{root}/{day}/{name}", table)
        except (OSError, pa.ArrowException) as error:
            raise AuditFailed(self.where, f"cannot be written: {error}") from None

    async def care(self, now_ms: int) -> None:
        """Merge past days, delete those that are too old; in a thread, once a day. Raises AuditFailed."""
        if self._cared != _day(now_ms):
            self._cared = _day(now_ms)
            await asyncio.to_thread(self._care, now_ms)

    def _care(self, now_ms: int) -> None:
        import pyarrow as pa

        from engine.jobs.audit.care import care

        first = _day(now_ms - self._keep_days * _DAY_MS) if self._keep_days else ""
        try:
            files, root = open_storage(self.where)
            care(files, root, first=first, today=_day(now_ms))
        except FileNotFoundError:
            return  # another process does the same at this moment
        except (OSError, pa.ArrowException) as error:
            raise AuditFailed(self.where, f"past days cannot be merged or removed: {error}") from None

    def read(self, *, since_ms: int = 0, about: str | None = None, flow: str | None = None) -> list[AuditRow]:
        """Return the rows from `since_ms` (Unix ms) on, in order; `about`: a topic, by its name on either side.

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
        for listing in range(1, _LISTINGS + 1):
            try:
                files, root = open_storage(self.where)
                paths = self._files(files, root, _day(since_ms))
                data = ds.dataset(paths, filesystem=files, format="parquet", schema=_schema(pa))
                found = data.to_table(filter=wanted)
                break
            except (OSError, pa.ArrowException) as error:
                if not isinstance(error, FileNotFoundError) or listing == _LISTINGS:
                    raise AuditFailed(self.where, f"cannot be read: {error}") from None
        rows = dict.fromkeys(msgspec.convert(one, AuditRow) for one in found.to_pylist())
        return sorted(rows, key=lambda row: row.at_ms)

    @staticmethod
    def _files(files: Any, root: str, first_day: str) -> list[str]:
        from engine.jobs.audit.care import files_by_day

        return [path for day, found in sorted(files_by_day(files, root).items()) if day >= first_day for path in found]


def audit_store(config: MirrorConfig) -> ParquetAudit | None:
    """Return the audit store of a configuration; None if it names no storage."""
    return ParquetAudit(config.storage, config.audit_days) if config.storage is not None else None


def _schema(pa: Any) -> Any:
    fields = msgspec.structs.fields(AuditRow)
    return pa.schema([(one.name, pa.int64() if one.type is int else pa.string()) for one in fields])


def _day(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d")
