"""A small table for tests of tables: rows, files as Spark writes them, and time that has passed."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.jobs.tables.columns import Column, TableSpec
from engine.jobs.tables.files import arrow_schema
from engine.jobs.tables.reading import EVER, Merge, Within, read
from engine.jobs.tables.table import Batch, Table

HOUR_MS = 3_600_000
BASE_MS = 500_000 * HOUR_MS
MINUTE_MS = 60_000
SPEC = TableSpec(
    name="counts",
    meaning="numbers by minute",
    partition="hour",
    by="hour",
    span="at_ms",
    stretch_ms=5 * MINUTE_MS,
    columns=(
        Column("hour", "text", "", "the hour"),
        Column("at_ms", "long", "Unix ms", "the minute"),
        Column("name", "text", "", "whose"),
        Column("number", "int", "records", "how many"),
        Column("share", "double", "", "a part"),
        Column("on", "flag", "", "whether"),
        Column("counts", "longs", "ms", "by bucket"),
    ),
)
Row = tuple[int, int]
"""Minute since BASE_MS, number."""


def at(minute: int) -> int:
    return BASE_MS + minute * MINUTE_MS


def hour_of(minute: int) -> str:
    return SPEC.partition_of(at(minute))


def rows_of(rows: Iterable[Row], spec: TableSpec = SPEC) -> pa.Table:
    found = [{"hour": hour_of(minute), "at_ms": at(minute), "name": "n", "number": number} for minute, number in rows]
    return pa.Table.from_pylist(found, schema=arrow_schema(spec))


def folder_of(table: Table) -> Path:
    return Path(table.uri.removeprefix("file:"))


def written(table: Table, rows: Iterable[Row], name: str = "") -> str:
    """Write rows as Spark does, into a folder of their own; return the folder."""
    folder = name or f"batch-{uuid4().hex[:8]}"
    given = rows_of(rows)
    (folder_of(table) / folder).mkdir(parents=True)
    for hour in sorted(set(given.column("hour").to_pylist())):
        part = given.filter(pc.equal(given.column("hour"), hour)).drop_columns(["hour"])
        place = folder_of(table) / folder / f"hour={hour}"
        place.mkdir()
        pq.write_table(part, place / f"part-{uuid4().hex[:8]}.zstd.parquet")
        (place / ".part-0.parquet.crc").touch()
    (folder_of(table) / folder / "_SUCCESS").touch()
    return folder


def add(table: Table, rows: Iterable[Row], batch: Batch | None = None) -> bool:
    """Commit rows as the host does."""
    return table.adopt(written(table, rows), batch) is not None


def newest(rows: pa.Table) -> pa.Table:
    """Keep the greatest number of each minute."""
    ranked = rows.sort_by([("at_ms", "ascending"), ("number", "descending")])
    times = ranked.column("at_ms").to_pylist()
    return ranked.filter(pa.array([one != before for one, before in zip(times, [None, *times], strict=False)]))


def rows_in(table: Table, within: Within = EVER, merge: Merge | None = None) -> list[Row]:
    found = [row for some in read(table, within, columns=["number"], merge=merge) for row in some.to_pylist()]
    return [((row["at_ms"] - BASE_MS) // MINUTE_MS, row["number"]) for row in found]


def pass_time(table: Table, seconds: float) -> None:
    """Make every file and every removal in the log older."""
    for path in sorted(folder_of(table).rglob("*")):
        if path.parent.name == "_delta_log" and path.suffix == ".json":
            actions = [json.loads(line) for line in path.read_text().splitlines()]
            for action in actions:
                if "remove" in action:
                    action["remove"]["deletionTimestamp"] -= round(seconds * 1000)
            path.write_text("\n".join(json.dumps(action) for action in actions))
        then = path.stat().st_mtime - seconds
        os.utime(path, (then, then))


def data_files(table: Table) -> list[str]:
    """List every file of the table that is not in its log."""
    root = folder_of(table)
    return sorted(
        str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and "_delta_log" not in path.parts
    )
