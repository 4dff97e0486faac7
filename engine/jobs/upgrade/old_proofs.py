"""Reads the proofs of earlier versions, and copies their rows into the tables `proof_lanes` and `proof_differences`.

<storage>/proofs/A-%3EB/lanes/run=.../*.parquet           one row per lane
<storage>/proofs/A-%3EB/differences/run=.../*.parquet     one row per difference
"""

from pathlib import PurePosixPath
from urllib.parse import unquote

import pyarrow as pa

from engine.config.storage import Storage
from engine.jobs.tables.catalog import PROOF_DIFFERENCES, PROOF_LANES
from engine.jobs.tables.columns import TableSpec
from engine.jobs.tables.files import arrow_schema
from engine.jobs.tables.log import Batch
from engine.jobs.tables.table import Table
from engine.jobs.upgrade.old_files import Added, OldFiles

_TABLES = {"lanes": PROOF_LANES, "differences": PROOF_DIFFERENCES}


class OldProofs:
    """The proofs of all flows of a storage: an `OldStore`."""

    what = "the proofs of a flow"
    table = PROOF_LANES.name

    def places(self, storage: Storage) -> list[str]:
        """Return the URIs of the flows whose proofs are not all converted yet. Raises OSError."""
        base = storage.path("proofs")
        found = [OldFiles(f"{base}/{name}") for name in OldFiles(base).folders()]
        return [files.uri for files in found if files.late(files.paths())]

    def convert(self, storage: Storage, place: str) -> Added:
        """Add the rows of a flow to both tables; count those in `proof_lanes`.

        Each file is one batch, so a repeated conversion adds every row once. Raises TableError, NewerFormat,
        OldFileDamaged, OSError.
        """
        flow, files, rows, missing = unquote(place.rsplit("/", 1)[-1]), OldFiles(place), 0, 0
        paths = files.paths()
        for folder, spec in _TABLES.items():
            table = Table(storage.path("tables", spec.name), spec)
            for path in [one for one in files.late(paths) if PurePosixPath(one).parts[0] == folder]:
                table.create()
                try:
                    found = _of_flow(files.read(path, arrow_schema(spec), spec.span), spec, flow)
                except FileNotFoundError:
                    missing += 1
                    continue
                is_new = table.append(found, Batch(f"conversion of proofs {flow} {path}", 0))
                rows += found.num_rows if is_new and spec is PROOF_LANES else 0
        files.mark(storage.path("tables"), paths)
        return Added(rows=rows, missing=missing)


def _of_flow(rows: pa.Table, spec: TableSpec, flow: str) -> pa.Table:
    """Fill in the columns that the old rows do not have: the flow and the day."""
    days = [spec.partition_of(at_ms) for at_ms in rows.column(spec.span).to_pylist()]
    own = {"flow": [flow] * rows.num_rows, spec.partition: days}
    columns = [pa.array(own[name], pa.string()) if name in own else rows.column(name) for name in rows.column_names]
    return pa.table(columns, schema=rows.schema)
