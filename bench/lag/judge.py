"""Compares a history and a lag topic with the samples that were sent: delay and correctness."""

import statistics
from collections.abc import Iterable, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from bench.errors import BenchError
from bench.lag.samples import lag_of
from bench.lag.topic import Record
from engine.jobs.lag.history import History
from engine.jobs.tables.catalog import LAG
from engine.jobs.tables.files import arrow_schema
from engine.jobs.tables.reading import EVER

WINDOW_S = 30
_COLUMNS = ["topic", "partition", "window_start_ms", "samples", "lag_records", "lag_records_min", "lag_records_max"]


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The sent samples: number of lanes, interval in seconds, a range of Unix time; figures begin a while later."""

    lanes: int
    every_s: int
    from_s: int
    until_s: int
    counts_from_s: int

    def told(self, start_s: int) -> list[int]:
        """Return the seconds at which a lane had a sample in the window that begins at a second."""
        return [at_s for at_s in range(self.from_s, self.until_s, self.every_s) if start_s <= at_s < start_s + WINDOW_S]

    def windows(self) -> list[int]:
        """Return the starts of all windows."""
        return list(range(self.from_s // WINDOW_S * WINDOW_S, self.until_s, WINDOW_S))


class Windows(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from the start of windows until they were complete. `rows`: checked windows."""

    finished_s: list[float]
    rows: int


def judge_history(uri: str, load: Load) -> Windows:
    """Check every window of every lane, and find when each was committed whole. Raises BenchError."""
    history = History(uri)
    finished: dict[int, list[int]] = {start_s: [] for start_s in load.windows()}
    schema = pa.schema([arrow_schema(LAG).field(name) for name in _COLUMNS])
    for file in history.table.snapshot().files:  # nobody compacts here: each is of one batch
        table = history.table.files.read(file, schema, EVER)
        for start_s in finished:
            own = table.filter(pc.equal(table.column("window_start_ms"), start_s * 1000))
            whole = own.filter(pc.equal(own.column("samples"), len(load.told(start_s))))
            finished[start_s] += [file.at_ms] * whole.filter(pc.not_equal(whole.column("topic"), "")).num_rows
    rows = sum(_check(table, load) for table in history.windows(0, 2**45, _COLUMNS))
    if rows != load.lanes * len(finished):
        raise BenchError("lag", f"{rows:,} windows in the history, {load.lanes * len(finished):,} were sent")
    late = [
        sorted(at_ms)[load.lanes - 1] / 1000 - start_s
        for start_s, at_ms in finished.items()
        if start_s >= load.counts_from_s and len(load.told(start_s)) == WINDOW_S // load.every_s
    ]
    return Windows(finished_s=late, rows=rows)


def _check(table: pa.Table, load: Load) -> int:
    """Compare an hour with the truth; return how many windows of lanes it has. Raises BenchError."""
    lanes = table.filter(pc.not_equal(table.column("topic"), ""))
    for row in lanes.to_pylist():
        lane = int(row["topic"].removeprefix("topic-")) * 10 + row["partition"]
        told = [lag_of(lane, at_s) for at_s in load.told(row["window_start_ms"] // 1000)]
        found = row["samples"], row["lag_records"], row["lag_records_min"], row["lag_records_max"]
        if found != (len(told), told[-1], min(told), max(told)):
            raise BenchError("lag", f"{row}, but lags of {told} were sent")
    return int(lanes.num_rows)


def judge_newest(records: Iterable[Record], load: Load) -> list[float]:
    """Find for every sample after how many seconds all its lanes had it on the lag topic. Raises BenchError.

    `records`: the whole topic, in order.
    """
    before: dict[bytes, int] = {}
    seen: dict[int, list[int]] = {at_s: [] for at_s in range(load.from_s, load.until_s, load.every_s)}
    lags: dict[bytes, int] = {}
    for at_ms, key, value in records:
        told = msgspec.json.decode(value, type=_Value)
        last_s = told.last_ms // 1000
        for at_s in range(before.get(key, load.from_s - load.every_s) + load.every_s, last_s + 1, load.every_s):
            seen[at_s].append(at_ms)
        before[key] = max(last_s, before.get(key, 0))
        if last_s == before[key]:
            lane = msgspec.json.decode(key, type=_Key)
            number = int(lane.topic.removeprefix("topic-")) * 10 + lane.partition
            lags[key] = told.lag_records - lag_of(number, last_s)
    missing = [at_s for at_s, at_ms in seen.items() if len(at_ms) != load.lanes]
    if missing or any(lags.values()):
        raise BenchError(
            "lag",
            f"the newest values are wrong: {len(missing)} samples missing, {sum(map(bool, lags.values()))} false",
        )
    return [max(at_ms) / 1000 - at_s for at_s, at_ms in seen.items() if at_s >= load.counts_from_s]


class _Key(msgspec.Struct):
    topic: str
    partition: int


class _Value(msgspec.Struct):
    last_ms: int
    lag_records: int


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return median and maximum."""
    return {"median": round(statistics.median(values), 2), "most": round(max(values), 2)}
