"""Finds breaches of an objective in a history: from the first window too far behind to the first that is not."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc


class Breach(msgspec.Struct, frozen=True, kw_only=True):
    """A topic that was further behind than its objective: since when, until when (None: it still is), and how far."""

    flow: str
    topic: str
    since_ms: int
    until_ms: int | None
    worst_s: float
    objective_s: float


class _Open(msgspec.Struct):
    since_ms: int
    worst_ms: int


class BreachFinder:
    """Takes rows per topic and window, hour by hour in order of time; `objectives` in seconds by flow, 0: none."""

    def __init__(self, objectives: Mapping[str, float]) -> None:
        self._objectives = {flow: seconds for flow, seconds in objectives.items() if seconds}
        self._open: dict[tuple[str, str], _Open] = {}
        self._found: list[Breach] = []

    def take(self, windows: pa.Table) -> None:
        """Take the rows of an hour."""
        for flow, objective_s in self._objectives.items():
            own = windows.filter(pc.equal(windows.column("flow"), flow))
            over = pc.greater(own.column("lag_ms_max_max"), round(objective_s * 1000))
            topics = set(pc.unique(own.filter(over).column("topic")).to_pylist())
            topics |= {topic for whose, topic in self._open if whose == flow}
            some = own.filter(pc.is_in(own.column("topic"), value_set=pa.array(sorted(topics), pa.string())))
            for row in some.sort_by("window_start_ms").to_pylist():
                self._one(row, objective_s)

    def _one(self, row: Mapping[str, Any], objective_s: float) -> None:
        key, lag_ms = (row["flow"], row["topic"]), row["lag_ms_max_max"]
        if lag_ms is None:
            return  # the lag is unknown: an open breach stays open
        began = self._open.get(key)
        if lag_ms <= objective_s * 1000:
            if began is not None:
                del self._open[key]
                self._found.append(self._breach(key, began, row["window_start_ms"]))
        elif began is None:
            self._open[key] = _Open(row["window_start_ms"], lag_ms)
        else:
            began.worst_ms = max(began.worst_ms, lag_ms)

    def _breach(self, key: tuple[str, str], began: _Open, until_ms: int | None) -> Breach:
        return Breach(
            flow=key[0],
            topic=key[1],
            since_ms=began.since_ms,
            until_ms=until_ms,
            worst_s=began.worst_ms / 1000,
            objective_s=self._objectives[key[0]],
        )

    def found(self) -> tuple[Breach, ...]:
        """Return the breaches, in order of their start."""
        still = [self._breach(key, began, None) for key, began in self._open.items()]
        return tuple(sorted([*self._found, *still], key=lambda one: (one.since_ms, one.flow, one.topic)))
