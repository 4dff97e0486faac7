"""Which offset syncs of a lane are told, and when: one object per lane, fed with acknowledged batches.

MM2 writes a sync wherever an offset jumps and every `offset.lag.max` records. Its reader (`sync_store`) is never ahead
of the truth as long as (1) every sync names one record's offsets on both sides, and (2) syncs that a target's loss made
false are followed by one with a lower source offset, which wipes them (the same one does not). So, at each tick:

- the last record below an owner's position comes before all others of its own: what a target lost, and is copied again
  to other offsets, lies above it (2). Where that record is not known, the first one that the owner copied stands for it;
- then, in a busy tick, some pairs in between, at least `lag_max` target offsets apart;
- last the newest pair. So a lane that stands still is told to its very end, whatever broke the line before.

Jumps need no sync of their own: for the reader they only say again what its rule (one more than the newest sync below)
gives anyway. What is not durable stays due. Where nobody knows whether it is (a lost answer), nothing in between is
told again: behind a newer one it would cost the reader its history.
"""

from typing import NamedTuple

MOST_BETWEEN = 8


class Pair(NamedTuple):
    """The offsets of one copied record."""

    source: int
    target: int


class Due(NamedTuple):
    """Pairs to write in this order, and the ownership that they belong to."""

    pairs: tuple[Pair, ...]
    ownership: int


class SyncEmitter:
    """What of one lane is due; bounded, the newest wins."""

    def __init__(self, lag_max: int) -> None:
        self._lag_max = lag_max
        self._ownership = 0
        self._first: Pair | None = None
        self.begin()

    def begin(self, last: Pair | None = None) -> None:
        """A new ownership begins; `last` is the last copied record below its position, where that is known.

        Where the one before did not come to tell where it began, this is still owed.
        """
        self._ownership += 1
        self._first = _lower(self._first, last)
        self._newest = last
        self._between: list[Pair] = []
        self._durable: Pair | None = None
        self._spacing = self._lag_max + 1

    def copied(self, first: Pair, last: Pair) -> None:
        """A batch was acknowledged: the offsets of its first and its last record."""
        if self._newest is None:
            self._first = _lower(self._first, first)
        self._newest = last
        before = self._between[-1] if self._between else self._durable or self._first
        if before is not None and last.target - before.target >= self._spacing:
            self._between.append(last)
            if len(self._between) > MOST_BETWEEN:
                self._between = self._between[1::2]
                self._spacing *= 2

    def due(self) -> Due | None:
        """Return what is to be written now, None where all is told; say `told` or `unknown` when the answer is there.

        What is asked for again meanwhile overlaps with it.
        """
        newest = self._newest
        if newest is None or newest == self._durable:
            return None
        pairs = [pair for pair in self._between if pair != newest]
        if self._first is not None and self._first != newest:
            pairs.insert(0, self._first)
        return Due((*pairs, newest), self._ownership)

    def told(self, due: Due) -> None:
        """This is durable."""
        if due.ownership == self._ownership:
            self._first, self._durable = None, due.pairs[-1]
            self._forget_between(due)

    def unknown(self, due: Due) -> None:
        """This may be durable or not."""
        if due.ownership == self._ownership:
            self._forget_between(due)

    def _forget_between(self, due: Due) -> None:
        self._between = [pair for pair in self._between if pair.target > due.pairs[-1].target]
        self._spacing = self._lag_max + 1


def _lower(owed: Pair | None, first: Pair | None) -> Pair | None:
    known = [pair for pair in (owed, first) if pair is not None]
    return min(known, default=None)
