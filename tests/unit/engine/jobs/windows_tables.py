"""Tables of windows as the lag job stores them, created without Spark."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from engine.core.reports.latency import BOUNDS_MS
from engine.jobs.lag.history import History
from engine.jobs.tables.catalog import LAG
from engine.jobs.tables.files import arrow_schema
from engine.jobs.tables.table import Batch

HOUR_MS = 3_600_000
BASE_MS = 500_000 * HOUR_MS
WINDOW_MS = 60_000
Row = dict[str, Any]
_SCHEMA = arrow_schema(LAG).remove(0)
"""As Spark writes them: without the partition column."""


def row(minute: int, *, samples: int = 6, partition: int = 0, lag: int | None = 0, **more: Any) -> Row:
    """One window of a lane: it begins so many minutes after BASE_MS."""
    start_ms = BASE_MS + WINDOW_MS * minute
    return {
        "flow": "A->B",
        "topic": "t",
        "partition": partition,
        "copier_key": "",
        "window_start_ms": start_ms,
        "window_end_ms": start_ms + WINDOW_MS,
        "samples": samples,
        "last_ms": start_ms + 1000 * samples,
        "lag_records": lag,
        "stalled_ms": 0,
        "stall_reason": "",
    } | more


def copier_row(minute: int, copier: str = "copier-1", *, appends: dict[int, int] | None = None, **more: Any) -> Row:
    """One window of a copier; `appends` are counts by bucket."""
    counts = [(appends or {}).get(at, 0) for at in range(len(BOUNDS_MS) + 1)]
    own = {"topic": "", "copier_key": copier, "copier": copier, "lag_records": None}
    return row(minute, partition=-1) | own | {"append_ms_counts": counts if appends else None} | more


def add(history: History, name: str, rows: list[Row], *, commit: bool = True) -> None:
    """Write rows as a batch does: a file per hour in a folder of this attempt's own, then the commit."""
    history.table.create()
    folder = f"batch-{name}-{uuid4().hex[:8]}"
    for hour in sorted({LAG.partition_of(one[LAG.span]) for one in rows}):
        place = Path(history.table.uri.removeprefix("file:")) / folder / f"hour={hour}"
        place.mkdir(parents=True)
        part = [one for one in rows if LAG.partition_of(one[LAG.span]) == hour]
        pq.write_table(pa.Table.from_pylist(part, schema=_SCHEMA), place / "part-0.parquet")
    if commit:
        history.table.adopt(folder, Batch(f"lag {name}", 0))


def read(history: History, since: int = 0, until: int = 24 * 60) -> list[tuple[int, int, int]]:
    """Read (minute, partition, samples) of the windows between two minutes."""
    found = []
    for table in history.windows(BASE_MS + WINDOW_MS * since, BASE_MS + WINDOW_MS * until):
        for one in table.to_pylist():
            found.append(((one["window_start_ms"] - BASE_MS) // WINDOW_MS, one["partition"], one["samples"]))
    return found
