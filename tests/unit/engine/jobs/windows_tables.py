"""Tables of windows as the lag job stores them, created without Spark."""

from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from engine.core.reports.latency import BOUNDS_MS
from engine.jobs.history.files import HistoryCommit
from engine.jobs.history.windows import History, hour_text

HOUR_MS = 3_600_000
BASE_MS = 500_000 * HOUR_MS
WINDOW_MS = 60_000
Row = dict[str, Any]

_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("flow", "topic", "copier_key", "copier", "state", "stall_reason")),
        ("partition", pa.int32()),
        *((name, pa.int64()) for name in ("window_start_ms", "window_end_ms", "samples", "last_ms", "lag_records")),
        *((name, pa.int64()) for name in ("lag_bytes", "lag_ms", "lag_ms_max", "stalled_ms", "records", "wire_bytes")),
        *((name, pa.int64()) for name in ("append_failures", "dropped")),
        *((name, pa.float64()) for name in ("drain_s", "records_per_s", "bytes_per_s")),
        *((f"{name}_ms_counts", pa.list_(pa.int64())) for name in ("append", "copied", "fetched")),
    ]
)


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


def add(history: History, name: str, rows: list[Row], *, commit: bool = True, at_ms: int = 0) -> None:
    """Write rows as a batch does: a file per hour in a folder of this attempt's own, then the commit."""
    attempt, adds = uuid4().hex[:8], []
    for hour in sorted({hour_text(one["window_start_ms"]) for one in rows}):
        file = f"batch={name}-{attempt}/hour={hour}/part-0.parquet"
        history.files.make_folder(file)
        part = [one for one in rows if hour_text(one["window_start_ms"]) == hour]
        pq.write_table(pa.Table.from_pylist(part, schema=_SCHEMA), history.files.path(file))
        adds.append(file)
    if commit:
        history.files.commit(name, HistoryCommit(at_ms=at_ms, adds=tuple(adds)))


def read(history: History, since: int = 0, until: int = 24 * 60) -> list[tuple[int, int, int]]:
    """Read (minute, partition, samples) of the windows between two minutes."""
    found = []
    for table in history.windows(BASE_MS + WINDOW_MS * since, BASE_MS + WINDOW_MS * until):
        for one in table.to_pylist():
            found.append(((one["window_start_ms"] - BASE_MS) // WINDOW_MS, one["partition"], one["samples"]))
    return found
