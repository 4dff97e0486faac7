"""`history`: size of the stored lag history of many partitions over days, and seconds of the commands that read it."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

from bench.errors import BenchError
from bench.figures import machine
from engine.base.clock import wall_ms
from engine.config.storage import Storage
from engine.jobs.lag.options import lag_table_uri
from engine.jobs.tables.catalog import LAG
from engine.jobs.tables.files import arrow_schema
from engine.jobs.tables.table import Table

_LANES, _QUICK_LANES, _DAYS, _QUICK_DAYS = 10_000, 1_000, 7.0, 0.25
_PARTITIONS = 10
_FLOW, _COPIERS, _RATE = "A->B", 4, 100
_WINDOW_MS, _STRETCH_MS, _HOUR_MS = 30_000, LAG.stretch_ms, 3_600_000
_PERIOD_MS = 1_200_000
_POLL_S = 0.05
_MOST_S = 3600
_WORST = "SELECT flow, topic, max(lag_ms_max) AS worst_ms FROM lag GROUP BY ALL ORDER BY worst_ms DESC LIMIT 10"
_SAMPLES = 6
"""Samples of a window: one every five seconds."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--lanes", type=int, help=f"number of partitions (default {_LANES:,}, quick {_QUICK_LANES:,})")
    parser.add_argument("--days", type=float, help=f"days of history (default {_DAYS:g}, quick {_QUICK_DAYS:g})")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Store the history, run the commands, and return the JSON object. Raises BenchError."""
    lanes = args.lanes or (_QUICK_LANES if args.quick else _LANES)
    hours = round((args.days or (_QUICK_DAYS if args.quick else _DAYS)) * 24)
    with tempfile.TemporaryDirectory(prefix="raymirror-bench-") as folder:
        storage = Storage.parse(f"file:{folder}/storage")
        began_s = time.monotonic()
        rows, size = _store(storage, lanes, hours)
        stored = {"rows": rows, "bytes": size, "bytes_a_row": round(size / rows, 2)}
        print(f"{hours} hours, {rows:,} rows, {size / 2**20:,.0f} MiB", flush=True)
        stored["store_s"] = round(time.monotonic() - began_s, 1)
        commands = {name: _timed(name, words, storage, Path(folder)) for name, words in _commands(hours).items()}
    return {
        "bench": "history",
        "lanes": lanes,
        "hours": hours,
        "stored": stored,
        "commands": commands,
        "quick": args.quick,
        "load": os.getloadavg()[0],
        "machine": machine(),
    }


def _commands(hours: int) -> dict[str, list[str]]:
    """Return the command lines, by what a person asks for."""
    return {
        "tables": ["tables"],
        "lag of an hour": ["lag", "--history", "--since", "1h"],
        "lag of a day": ["lag", "--history", "--since", f"{min(24, hours)}h"],
        "report of all": ["report", "--since", f"{hours}h", "-o", "report.html"],
        "worst of each topic, by SQL": ["sql", _WORST],
    }


def _store(storage: Storage, lanes: int, hours: int) -> tuple[int, int]:
    """Store hours that end now, as maintenance leaves them: one file each. Return the rows, and the bytes of files."""
    table = Table(lag_table_uri(storage), LAG)
    table.create()
    rows = size = 0
    last_ms = wall_ms() // _HOUR_MS * _HOUR_MS
    for hour_ms in range(last_ms - hours * _HOUR_MS, last_ms, _HOUR_MS):
        file = table.files.write("bench", LAG.partition_of(hour_ms), hour_of(lanes, hour_ms))
        if file is None or not table.commit([file]):
            raise BenchError("history", f"the hour {LAG.partition_of(hour_ms)} was not stored")
        rows, size = rows + file.rows, size + file.size
    return rows, size


def hour_of(lanes: int, hour_ms: int) -> Iterator[pa.Table]:
    """Yield the windows of an hour in stretches, each in the order in which maintenance stores it."""
    for begin_ms in range(hour_ms, hour_ms + _HOUR_MS, _STRETCH_MS):
        yield _stretch(lanes, begin_ms)


def _stretch(lanes: int, begin_ms: int) -> pa.Table:
    """Return the windows of some minutes: each lane falls behind for ten minutes and drains in the next ten."""
    each = _STRETCH_MS // _WINDOW_MS
    lane = np.repeat(np.arange(lanes), each)
    begins = np.tile(begin_ms + np.arange(each) * _WINDOW_MS, lanes)
    phase = (begins + lane * 7_000) % _PERIOD_MS
    lag_ms = np.minimum(phase, _PERIOD_MS - phase)
    lag = lag_ms * _RATE // 1000
    noise = np.random.default_rng(begin_ms).integers(0, _RATE, lanes * each)
    position = begins * _RATE // 1000 - lag + noise
    return pa.table(
        {name: _column(name, lane, begins, lag, lag_ms, position) for name in arrow_schema(LAG).names},
        schema=arrow_schema(LAG),
    )


def _column(name: str, lane: Any, begins: Any, lag: Any, lag_ms: Any, position: Any) -> Any:
    """Return a column of a stretch; those that only copiers have are empty."""
    texts = {
        "hour": LAG.partition_of(int(begins[0])),
        "flow": _FLOW,
        "copier_key": "",
        "state": "running",
        "stall_reason": "",
    }
    if name in texts:
        return pa.DictionaryArray.from_arrays(np.zeros(len(lane), np.int32), [texts[name]]).cast(pa.string())
    if name in ("topic", "copier"):
        words = [f"orders-{one:05}" for one in range(int(lane[-1]) // _PARTITIONS + 1)]
        words = words if name == "topic" else [f"copier-{one}" for one in range(_COPIERS)]
        which = lane // _PARTITIONS if name == "topic" else lane % _COPIERS
        return pa.DictionaryArray.from_arrays(which.astype(np.int32), words).cast(pa.string())
    records = np.full(len(lane), _RATE * _WINDOW_MS // 1000) + position % 7
    numbers: dict[str, Any] = {
        "partition": lane % _PARTITIONS,
        "window_start_ms": begins,
        "window_end_ms": begins + _WINDOW_MS,
        "samples": np.full(len(lane), _SAMPLES),
        "first_ms": begins + lane % 5000,
        "last_ms": begins + _WINDOW_MS - 5000 + lane % 5000,
        "position": position,
        "source_end": position + lag,
        "newest_ms": begins - lag_ms + position % 97,
        "stalled_ms": np.zeros(len(lane), np.int64),
        "records": records,
        "wire_bytes": records * 120 + position % 1013,
        "records_per_s": records / (_WINDOW_MS / 1000),
        "bytes_per_s": (records * 120 + position % 1013) / (_WINDOW_MS / 1000),
        "latency_mean_ms": lag_ms + (position % 997) / 100,
        "trend": np.where(lag_ms < _PERIOD_MS // 4, 1.0, -1.0) * (_RATE + position % 13),
        "drain_s": lag / _RATE,
    }
    found = numbers.get(name)
    if found is None and name.startswith("lag_"):
        base = {"records": lag, "bytes": lag * 120, "ms": lag_ms}[name.split("_")[1]]
        found = base + {"min": -1, "max": 1}.get(name.split("_")[-1], 0) * (position % 50)
    type_ = arrow_schema(LAG).field(name).type
    return pa.nulls(len(lane), type_) if found is None else pa.array(found).cast(type_)


def _timed(name: str, words: list[str], storage: Storage, folder: Path) -> dict[str, float]:
    """Run one command; return its seconds, its CPU seconds, and the most memory that it had, in MiB."""
    began_s = time.monotonic()
    command = [sys.executable, "-m", "actors", *words, "--storage", storage.uri]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with (folder / "output").open("wb") as output:
        ran = psutil.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=folder, env=environment)
        most = cpu_s = 0.0
        while ran.poll() is None:
            try:
                most = max(most, ran.memory_info().rss / 2**20)
                cpu_s = sum(ran.cpu_times()[:2])
            except psutil.NoSuchProcess:
                break
            if time.monotonic() - began_s > _MOST_S:
                ran.kill()
            time.sleep(_POLL_S)
        code = ran.wait()
    if code:
        raise BenchError(name, f"exit code {code}: {(folder / 'output').read_text(errors='replace')[-500:]}")
    found = {
        "wall_s": round(time.monotonic() - began_s, 2),
        "cpu_s": round(cpu_s, 2),
        "rss_mib": round(most, 1),
    }
    print(f"{name}: {found}", flush=True)
    return found
