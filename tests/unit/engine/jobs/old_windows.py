"""A history of lag as earlier versions stored it: Parquet files, and commits that add and withdraw them."""

from pathlib import Path
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from engine.jobs.tables.catalog import LAG
from engine.jobs.tables.files import arrow_schema
from tests.unit.engine.jobs.windows_tables import Row


def add_old(
    place: Path, name: str, rows: list[Row], *, removes: tuple[str, ...] = (), commit: bool = True
) -> list[str]:
    """Write rows as an earlier version did; return the files below `data`."""
    adds = []
    for hour in sorted({LAG.partition_of(one[LAG.span]) for one in rows}):
        file = f"batch={name}-{uuid4().hex[:8]}/hour={hour}/part-0.parquet"
        (place / "data" / file).parent.mkdir(parents=True)
        part = [one for one in rows if LAG.partition_of(one[LAG.span]) == hour]
        pq.write_table(pa.Table.from_pylist(part, schema=arrow_schema(LAG).remove(0)), place / "data" / file)
        adds.append(file)
    if commit:
        (place / "commits").mkdir(parents=True, exist_ok=True)
        told = {"at_ms": 1, "adds": adds, "removes": removes, "format": 1}
        (place / "commits" / f"{name}.json").write_bytes(msgspec.json.encode(told))
    return adds
