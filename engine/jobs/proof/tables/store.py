"""Reads and writes the tables of proofs (`rows.py`), in a process without Spark and beside a session alike."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.config.storage import Storage
from engine.jobs.proof.model import ProofReport, Proven
from engine.jobs.proof.state import Key
from engine.jobs.proof.tables.rows import Row, difference_rows, fold, joined, lane_rows
from engine.jobs.tables.care import care
from engine.jobs.tables.catalog import PROOF_DIFFERENCES, PROOF_LANES
from engine.jobs.tables.columns import TableSpec
from engine.jobs.tables.errors import TableMissing
from engine.jobs.tables.files import arrow_schema
from engine.jobs.tables.options import CareOptions
from engine.jobs.tables.reading import read
from engine.jobs.tables.table import Table
from policies.model import FlowName

_FOLDED = (
    *("topic", "partition", "source_id", "target_id", "generation"),
    *("flow", "run", "began_ms", "proven_from", "proven_to", "differences", "verdict"),
)
_IN_ORDER = [("began_ms", "ascending"), ("run", "ascending")]
_FOR_EVER = CareOptions(keep_s=0.0)
_TIDY_MS = 3_600_000


class ProofStore:
    """The tables of proofs in one storage; `where` names their folder. Methods raise TableError and NewerFormat."""

    def __init__(self, storage: Storage) -> None:
        self.where = storage.path("tables")
        self._lanes = _table(storage, PROOF_LANES)
        self._differences = _table(storage, PROOF_DIFFERENCES)
        self._tidied_ms = -_TIDY_MS

    def proven(self, flow: FlowName) -> dict[Key, Proven]:
        """Return what earlier proofs of a flow found whole; memory holds the rows of one day."""
        return fold(self._rows_of(flow))

    def _rows_of(self, flow: FlowName) -> Iterator[dict[str, Any]]:
        try:
            for day in read(self._lanes, columns=_FOLDED, merge=lambda rows: rows.sort_by(_IN_ORDER)):
                yield from day.filter(pc.field("flow") == str(flow)).to_pylist()
        except TableMissing:
            return

    def store(self, report: ProofReport) -> None:
        """Add a report. If that is cut off, differences may be stored whose lanes are not: they are proven again."""
        _append(self._differences, difference_rows(report))
        _append(self._lanes, lane_rows(report))

    def tidy(self, now_ms: int) -> None:
        """Once an hour make few files of many, and one row of the rows of a lane that mean the same together."""
        if now_ms < self._tidied_ms + _TIDY_MS:
            return
        self._tidied_ms = now_ms
        for table, merge in ((self._lanes, _merged), (self._differences, None)):
            if table.exists():
                care(table, _FOR_EVER, now_ms, merge)


def _table(storage: Storage, spec: TableSpec) -> Table:
    return Table(storage.path("tables", spec.name), spec)


def _append(table: Table, rows: list[Row]) -> None:
    if rows:
        table.create()
        table.append(pa.Table.from_pylist(rows, schema=arrow_schema(table.spec)))


def _merged(rows: pa.Table) -> pa.Table:
    """Join the rows of lanes of a day."""
    found = joined(rows.sort_by(_IN_ORDER).to_pylist())
    return pa.Table.from_pylist(found, schema=rows.schema).sort_by(_IN_ORDER)
