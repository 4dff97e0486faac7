"""Which offset syncs of a lane are told, and when: one object per lane, which looks at the lane's map at each tick.

MM2 writes a sync wherever an offset jumps and every `offset.lag.max` records. Its reader (`sync_store`) is never ahead
of the truth as long as (1) every sync names one record's offsets on both sides, and (2) syncs that a target's loss made
false are followed by one with a lower source offset, which wipes them (the same one does not). So, at each tick:

- the last record below an owner's position comes before all others of its own: what a target lost, and is copied again
  to other offsets, lies above it (2). Where that one is not known, the first that the owner copied stands for it;
- then, in a busy tick, some pairs in between, at least `lag_max` target offsets apart;
- last the newest pair. So a lane that stands still is told to its very end, whatever broke the line before.

Jumps need no sync of their own: for the reader they only say again what its rule (one more than the newest sync below)
gives anyway. What is not durable stays due. Where nobody knows whether it is (a lost answer), nothing in between is
told again: behind a newer one it would cost the reader its history.
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
    """Pairs to write in this order; the lane's position version and the ownership that they belong to."""

    pairs: tuple[OffsetPair, ...]
    version: int
    ownership: int


def last_pair(runs: Sequence[MapRun]) -> OffsetPair | None:
    """Return the offsets of the last record of a lane's runs, None without one."""
    if not runs:
        return None
    source, target, count = runs[-1]
    return OffsetPair(source + count - 1, target + count - 1)


class SyncEmitter:
    """What of one lane is due; bounded, the newest wins."""

    def __init__(self, lag_max: int) -> None:
        self.version = -1
        """The lane's position version that is durably told."""
        self._lag_max = lag_max
        self._ownership = 0
        self._retries: OffsetPair | None = None
        self._starts = True
        self._told_to: OffsetPair | None = None

    def begin(self, last: OffsetPair | None) -> None:
        """A new ownership begins; `last` is the last copied record below its position, where that is known.

        Where the one before did not come to tell where it began, this is still owed.
        """
        self._ownership += 1
        self._retries = _lower(self._retries, last)
        self._starts = last is None
        self._told_to = None
        self.version = -1

    def due(self, version: int, runs: Sequence[MapRun]) -> Due | None:
        """Return what is to be written of the lane's runs, None without any; say `told` or `unknown` with its outcome.

        What is asked for before that overlaps with it. Behind the last record the position may have passed markers,
        which our own bytes behind a sync tell: then the same pair is due again.
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
        """Choose pairs behind what was told, as far apart as there is room for."""
        begin = self._told_to or self._retries or newest
        if newest.target - begin.target <= self._lag_max:
            return []
        step = max(self._lag_max + 1, -(-(newest.target - begin.target) // (MOST_BETWEEN + 1)))
        found = (_pair_at(runs, target) for target in range(begin.target + step, newest.target, step))
        return [
            pair for pair in dict.fromkeys(found) if pair is not None and begin.target < pair.target < newest.target
        ]

    def told(self, due: Due) -> None:
        """This is durable."""
        if due.ownership == self._ownership:
            self._retries, self._told_to, self.version = None, due.pairs[-1], due.version

    def unknown(self, due: Due) -> None:
        """This may be durable or not."""
        if due.ownership == self._ownership:
            self._told_to = due.pairs[-1]


def _lower(retries: OffsetPair | None, first: OffsetPair | None) -> OffsetPair | None:
    return min((pair for pair in (retries, first) if pair is not None), default=None)


def _pair_at(runs: Sequence[MapRun], target: int) -> OffsetPair | None:
    """Return the record at a target offset, or the last one before it; None where the runs begin later."""
    at = bisect_right(runs, target, key=_target) - 1
    if at < 0:
        return None
    run = runs[at]
    return OffsetPair(run.source + min(target - run.target, run.count - 1), min(target, run.target + run.count - 1))


def _target(run: MapRun) -> int:
    return run.target
