"""Chooses the offset syncs that a lane writes: one object per lane, which reads the lane's map at each tick.

MM2 writes a sync at every jump of an offset and every `offset.lag.max` records. Its reader (`sync_store`) is never
ahead of the truth if (1) every sync names one record's offsets on both sides, and (2) after a target lost records, a
sync with a lower source offset follows the syncs that became false. Such a sync wipes them; one with the same source
offset does not. So each tick writes, in this order:

- once per owner, the last record below the owner's position. All records that a target lost and that are copied again
  to other offsets lie above it (2). If that record is not known, the first record that the owner copied replaces it;
- if the lane moved far, some pairs in between, at least `lag_max` target offsets apart;
- the newest pair. So the syncs of an idle lane reach its very end.

Jumps need no sync of their own: the reader's rule (one more than the newest sync below) gives the same answer. A pair
that is not durable stays due. If that is not known (a lost answer), the pairs in between are not written again: after a
newer sync they would cost the reader its history.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from engine.core.offset_map.map_runs import MapRun

MOST_BETWEEN = 8


class OffsetPair(NamedTuple):
    """The offsets of one copied record."""

    source: int
    target: int


class Due(NamedTuple):
    """Pairs to write in this order, with the lane's position version and the ownership that they belong to."""

    pairs: tuple[OffsetPair, ...]
    version: int
    ownership: int


def last_pair(runs: Sequence[MapRun]) -> OffsetPair | None:
    """Return the offsets of the last record of a lane's runs; None without records."""
    if not runs:
        return None
    source, target, count = runs[-1]
    return OffsetPair(source + count - 1, target + count - 1)


class SyncEmitter:
    """The pairs of one lane that are due: a bounded number, always with the newest."""

    def __init__(self, lag_max: int) -> None:
        self.version = -1
        """The lane's position version whose newest pair is durable as a sync; -1 without one."""
        self._lag_max = lag_max
        self._ownership = 0
        self._retries: OffsetPair | None = None
        self._starts = True
        self._written_to: OffsetPair | None = None

    def begin(self, last: OffsetPair | None) -> None:
        """Start a new ownership; `last`: the last copied record below its position, None if not known.

        If the previous ownership has not written its own first pair, the lower of both pairs is due.
        """
        self._ownership += 1
        self._retries = _lower(self._retries, last)
        self._starts = last is None
        self._written_to = None
        self.version = -1

    def due(self, version: int, runs: Sequence[MapRun]) -> Due | None:
        """Return the pairs of the lane's runs to write, None if none; call `written` or `unknown` with the outcome.

        A second call before that returns overlapping pairs. If the position has passed markers after the last record,
        the same pair is due again, because the tail of a sync names the position.
        """
        newest = last_pair(runs)
        if newest is None or version == self.version:
            return None
        if self._starts:
            self._starts = False
            self._retries = _lower(self._retries, OffsetPair(runs[0].source, runs[0].target))
        first = () if self._retries is None or self._retries == newest else (self._retries,)
        return Due((*first, *self._between(newest, runs), newest), version, self._ownership)

    def _between(self, newest: OffsetPair, runs: Sequence[MapRun]) -> list[OffsetPair]:
        """Choose at most MOST_BETWEEN evenly spaced pairs between the last written pair and the newest one."""
        begin = self._written_to or self._retries or newest
        if newest.target - begin.target <= self._lag_max:
            return []
        step = max(self._lag_max + 1, -(-(newest.target - begin.target) // (MOST_BETWEEN + 1)))
        found = (_pair_at(runs, target) for target in range(begin.target + step, newest.target, step))
        return [
            pair for pair in dict.fromkeys(found) if pair is not None and begin.target < pair.target < newest.target
        ]

    def written(self, due: Due) -> None:
        """Note that these pairs are durable."""
        if due.ownership == self._ownership:
            self._retries, self._written_to, self.version = None, due.pairs[-1], due.version

    def unknown(self, due: Due) -> None:
        """Note that these pairs may be durable or not."""
        if due.ownership == self._ownership:
            self._written_to = due.pairs[-1]


def _lower(retries: OffsetPair | None, first: OffsetPair | None) -> OffsetPair | None:
    return min((pair for pair in (retries, first) if pair is not None), default=None)


def _pair_at(runs: Sequence[MapRun], target: int) -> OffsetPair | None:
    """Return the record at a target offset, or the last one before it; None if the runs start later."""
    at = bisect_right(runs, target, key=_target) - 1
    if at < 0:
        return None
    run = runs[at]
    return OffsetPair(run.source + min(target - run.target, run.count - 1), min(target, run.target + run.count - 1))


def _target(run: MapRun) -> int:
    return run.target
