"""Stores the history of configs in the tables `configs`, `config_changes` and `drift`; needs neither Spark nor pyarrow.

    batch -> drift -> config_changes -> configs        three commits: the last one has the values, and so the state

A batch that is written again, because nobody knows whether it was written, changes nothing. A process that is killed
between two commits leaves changes and drift without their values: its successor sees the values change again, and
knows what is stored already (`HistoryState.stored`).
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from engine.config.settings import MirrorConfig
from engine.config.storage import Storage
from engine.flow.config_history.advance import SNAPSHOT_MS
from engine.flow.config_history.keeper import HistoryBatch, HistoryFailed
from engine.flow.config_history.rows import DriftRow, HistoryRow, SourceChangeRow
from engine.flow.config_history.state import HistoryState, StoredValue, restored
from engine.jobs.tables.catalog import CONFIG_CHANGES, CONFIGS, DRIFT
from engine.jobs.tables.columns import TableSpec

if TYPE_CHECKING:
    from engine.jobs.tables.appender import TableAppender

_DAY_MS = 86_400_000
R = TypeVar("R", SourceChangeRow, DriftRow)


class HistoryTables:
    """Writes the history, and reads the state from it; imports deltalake at the first use.

    `keep_days`: how long rows stay, 0: for ever. Values stay for a month longer, up to the snapshot before that time.
    """

    def __init__(self, storage: Storage, keep_days: int = 0) -> None:
        self.where = storage.path("tables", CONFIGS.name)
        self._storage = storage
        self._keep_ms = keep_days * _DAY_MS
        self._tidied = ""
        """The last day on which `care` ran, whether it succeeded or not."""

    async def load(self, flow: str) -> HistoryState | None:
        """Return the state of a flow, None if the tables have nothing of it, in a thread. Raises HistoryFailed."""
        return await asyncio.to_thread(self._load, flow)

    def _load(self, flow: str) -> HistoryState | None:
        from engine.jobs.tables.scan import latest, quoted, scan

        where = f"flow = {quoted(flow)}"
        with self._failing("cannot be read"):
            if not self._exists(CONFIGS):
                return None
            uri = self._uri(CONFIGS)
            since_ms = latest(uri, CONFIGS, f"{where} AND snapshot") or 0
            values = scan(uri, CONFIGS, StoredValue._fields, f"{where} AND at_ms >= {since_ms}")
            changes, drift = self._rows(CONFIG_CHANGES, SourceChangeRow, where), self._rows(DRIFT, DriftRow, where)
            return restored((StoredValue(*one) for one in values), changes, drift)

    def _rows(self, spec: TableSpec, kind: type[R], where: str) -> Iterator[R]:
        from engine.jobs.tables.scan import scan

        if self._exists(spec):
            names = kind.__struct_fields__
            for values in scan(self._uri(spec), spec, names, where):
                yield kind(**dict(zip(names, values, strict=True)))

    async def write(self, batch: HistoryBatch) -> None:
        """Commit a batch to each table unless it is committed there, in a thread. Raises HistoryFailed."""
        await asyncio.to_thread(self._write, batch)

    def _write(self, batch: HistoryBatch) -> None:
        from engine.jobs.tables.log import Batch

        rows = batch.rows
        parts: tuple[tuple[TableSpec, Sequence[HistoryRow]], ...] = (
            (DRIFT, rows.drift),
            (CONFIG_CHANGES, rows.changes),
            (CONFIGS, rows.values),
        )
        with self._failing("cannot be written"):
            for spec, some in parts:
                if some:
                    self._appender(spec).append(some, Batch(f"history {batch.writer}", batch.number))

    async def care(self, now_ms: int) -> None:
        """Make one file of each past day, take out days that are too old: once a day. Raises HistoryFailed."""
        day = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%d")
        if self._tidied != day:
            self._tidied = day
            await asyncio.to_thread(self._tidy, now_ms)

    def _tidy(self, now_ms: int) -> None:
        with self._failing("past days cannot be folded or removed"):
            for spec in (CONFIGS, CONFIG_CHANGES, DRIFT):
                more_ms = SNAPSHOT_MS + _DAY_MS if spec is CONFIGS and self._keep_ms else 0
                self._appender(spec).tidy(now_ms, self._keep_ms + more_ms)

    def _uri(self, spec: TableSpec) -> str:
        return self._storage.path("tables", spec.name)

    def _appender(self, spec: TableSpec) -> "TableAppender":
        from engine.jobs.tables.appender import TableAppender

        return TableAppender(self._uri(spec), spec)

    def _exists(self, spec: TableSpec) -> bool:
        from engine.jobs.tables.scan import exists

        return exists(self._uri(spec))

    def _failing(self, what: str) -> AbstractContextManager[None]:
        from engine.jobs.tables.errors import told_by

        return told_by(HistoryFailed, self.where, what)


def history_store(config: MirrorConfig) -> HistoryTables | None:
    """Return the store of a configuration; None if it names no storage."""
    return HistoryTables(config.storage, config.audit_days) if config.storage is not None else None
