"""Makes the windows of a simulated flow: each partition falls behind for ten minutes, and drains in the next ten."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from engine.jobs.tables.catalog import LAG
from engine.jobs.tables.files import arrow_schema
from policies.model import FlowName

HOUR_MS = 3_600_000
_PARTITIONS = 10
FLOW = FlowName("A", "B")
_COPIERS, _RATE = 4, 100
_WINDOW_MS, _PERIOD_MS = 30_000, 1_200_000
_SAMPLES = 6
"""Samples of a window: one every five seconds."""


def hour_of(lanes: int, hour_ms: int) -> Iterator[pa.Table]:
    """Yield the windows of an hour in stretches, each in the order in which maintenance stores it."""
    for begin_ms in range(hour_ms, hour_ms + HOUR_MS, LAG.stretch_ms):
        yield _stretch(lanes, begin_ms)


def _stretch(lanes: int, begin_ms: int) -> pa.Table:
    """Return the windows of some minutes."""
    each = LAG.stretch_ms // _WINDOW_MS
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
        "flow": str(FLOW),
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
