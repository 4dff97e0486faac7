"""Reads the proofs of earlier versions, and copies their rows into the tables `proof_lanes` and `proof_differences`.

<storage>/proofs/A-%3EB/lanes/run=.../*.parquet           one row per lane
<storage>/proofs/A-%3EB/differences/run=.../*.parquet     one row per difference
"""

from urllib.parse import unquote

import pyarrow as pa

from engine.config.storage import Storage
from engine.jobs.tables.catalog import PROOF_DIFFERENCES, PROOF_LANES
from engine.jobs.tables.columns import TableSpec
from engine.jobs.tables.files import arrow_schema
from engine.jobs.tables.log import Batch
from engine.jobs.tables.table import Table
from engine.jobs.upgrade.old_files import OldFiles

_TABLES = {"lanes": PROOF_LANES, "differences": PROOF_DIFFERENCES}


class OldProofs:
    """The proofs of all flows of a storage: an `OldStore`."""

    what = "the proofs of a flow"
    table = PROOF_LANES.name

    def places(self, storage: Storage) -> list[str]:
        """Return the URIs of the flows whose proofs are not converted yet. Raises OSError."""
        base = storage.path("proofs")
        found = [OldFiles(f"{base}/{name}") for name in OldFiles(base).folders()]
        return [files.uri for files in found if files.paths() and not files.is_marked()]

    def convert(self, storage: Storage, place: str) -> int:
        """Add the rows of a flow to both tables; return the number of those in `proof_lanes`.

        Each table is one batch, so a repeated conversion adds every row once. Raises TableError, NewerFormat,
        OldFileDamaged, OSError.
        """
        flow, added = unquote(place.rsplit("/", 1)[-1]), dict.fromkeys(_TABLES, 0)
        for folder, spec in _TABLES.items():
            files, table = OldFiles(f"{place}/{folder}"), Table(storage.path("tables", spec.name), spec)
            rows = [_of_flow(files.read(path, arrow_schema(spec)), spec, flow) for path in files.paths()]
            if rows:
                table.create()
                found = pa.concat_tables(rows).sort_by([(spec.span, "ascending"), ("run", "ascending")])
                if table.append(found, Batch(f"conversion of proofs {flow}", 0)):
                    added[folder] = found.num_rows
        OldFiles(place).mark(storage.path("tables"))
        return added["lanes"]


def _of_flow(rows: pa.Table, spec: TableSpec, flow: str) -> pa.Table:
    """Fill in the columns that the old rows do not have: the flow and the day."""
    days = [spec.partition_of(at_ms) for at_ms in rows.column(spec.span).to_pylist()]
    own = {"flow": [flow] * rows.num_rows, spec.partition: days}
    columns = [pa.array(own[name], pa.string()) if name in own else rows.column(name) for name in rows.column_names]
    return pa.table(columns, schema=rows.schema)
