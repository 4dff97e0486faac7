"""Stores the audit trail in the table `audit` below `raymirror.storage`; needs no Spark.

A batch that is written again, because nobody knows whether it was written, changes nothing. Writing needs no pyarrow,
which would take 70 MB of the metadata actor's memory.
"""

import asyncio
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from engine.config.settings import MirrorConfig
from engine.config.storage import Storage
from engine.flow.config_sync.audit import AuditBatch, AuditFailed, AuditRow
from engine.jobs.tables.catalog import AUDIT

if TYPE_CHECKING:
    import pyarrow as pa

    from engine.jobs.tables.appender import TableAppender

_DAY_MS = 86_400_000


class TableAudit:
    """Writes and reads audit rows; imports deltalake at the first use. `keep_days` 0: rows stay for ever."""

    def __init__(self, storage: Storage, keep_days: int = 0) -> None:
        self.where = storage.path("tables", AUDIT.name)
        self._keep_ms = keep_days * _DAY_MS
        self._tidied = ""
        """The last day on which `care` ran, whether it succeeded or not."""

    async def write(self, batch: AuditBatch) -> None:
        """Commit a batch unless it is committed, in a thread. Raises AuditFailed."""
        await asyncio.to_thread(self._write, batch)

    def _write(self, batch: AuditBatch) -> None:
        from engine.jobs.tables.log import Batch

        with self._failing("cannot be written"):
            rows = [msgspec.structs.asdict(row) for row in batch.rows]
            self._appender().append(rows, Batch(f"audit {batch.writer}", batch.number))

    async def care(self, now_ms: int) -> None:
        """Make one file of each past day, take out days that are too old: once a day. Raises AuditFailed."""
        day = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%d")
        if self._tidied != day:
            self._tidied = day
            await asyncio.to_thread(self._tidy, now_ms)

    def _tidy(self, now_ms: int) -> None:
        with self._failing("past days cannot be folded or removed"):
            self._appender().tidy(now_ms, self._keep_ms)

    def _appender(self) -> "TableAppender":
        from engine.jobs.tables.appender import TableAppender

        return TableAppender(self.where, AUDIT)

    def read(self, *, since_ms: int = 0, about: str | None = None, flow: str | None = None) -> list[AuditRow]:
        """Return the rows from `since_ms` (Unix ms) on, in order; `about`: a topic, by its name on either side.

        Raises AuditFailed.
        """
        from engine.jobs.tables.errors import TableMissing
        from engine.jobs.tables.reading import EVER, read
        from engine.jobs.tables.table import Table

        found: list[AuditRow] = []
        with self._failing("cannot be read"):
            try:
                for rows in read(Table(self.where, AUDIT), (since_ms, EVER[1])):
                    found += [msgspec.convert(row, AuditRow) for row in _chosen(rows, about, flow).to_pylist()]
            except TableMissing:
                return []
        return found

    def _failing(self, what: str) -> AbstractContextManager[None]:
        from engine.jobs.tables.errors import told_by

        return told_by(AuditFailed, self.where, what)


def _chosen(rows: "pa.Table", about: str | None, flow: str | None) -> "pa.Table":
    import pyarrow.compute as pc

    if about is not None:
        rows = rows.filter((pc.field("topic") == about) | (pc.field("target") == about))
    return rows if flow is None else rows.filter(pc.field("flow") == flow)


def audit_store(config: MirrorConfig) -> TableAudit | None:
    """Return the audit store of a configuration; None if it names no storage."""
    return TableAudit(config.storage, config.audit_days) if config.storage is not None else None
