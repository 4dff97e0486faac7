"""Judges both logs and what a group has read, over any number of trips. Pure.

A stint is the time in which applications write to one cluster. Its records are numbered from `first` on in each
partition, and each stint has a `first` of its own, so that a number names one record for ever. A log or a reading is an
array of numbers for each partition, in its order.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Log = Mapping[int, Numbers]
STRIDE = 1_000_000_000
"""Distance between the numbers of two stints."""
MOST_ABOVE_DIFFERENCE = 0.01
"""What a failback may write beyond the difference, as a part of it."""
_NONE: Numbers = np.array([], dtype=np.int64)


class Stint(msgspec.Struct, frozen=True, kw_only=True):
    """What one producer wrote. `acknowledged`, `offered`: the number behind the last such record, by partition.

    They differ only if the producer died with its cluster: records between them may be in the log, or not.
    `ended_s`: when the last record was acknowledged (Unix time).
    """

    first: int
    acknowledged: dict[int, int]
    offered: dict[int, int]
    ended_s: float = 0.0

    @property
    def records(self) -> int:
        """Acknowledged records."""
        return sum(end - self.first for end in self.acknowledged.values())


class LogFault(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a log, in records; `records`: those that should be there.

    `reordered`: records behind a later one of their own stint. `late`: records behind one of a later stint. `foreign`:
    records that nobody wrote.
    """

    records: int = 0
    lost: int = 0
    doubled: int = 0
    reordered: int = 0
    late: int = 0
    foreign: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether every record is there once, those of each stint in order; late ones are judged by the report."""
        return not (self.lost or self.doubled or self.reordered or self.foreign)

    def __add__(self, other: "LogFault") -> "LogFault":
        """Sum up two partitions."""
        mine, theirs = msgspec.structs.asdict(self), msgspec.structs.asdict(other)
        return LogFault(**{name: mine[name] + theirs[name] for name in mine})


class ReadFault(msgspec.Struct, frozen=True, kw_only=True):
    """How a group read, in records; `records`: those that should be read. `again`: readings beyond the first of each.

    `reordered`: first readings behind that of a later record of the same stint.
    """

    records: int = 0
    missed: int = 0
    again: int = 0
    reordered: int = 0
    foreign: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing was missed, and each stint was read in order; readings again are judged by the reports."""
        return not (self.missed or self.reordered or self.foreign)


def judge_log(log: Log, stints: Sequence[Stint]) -> LogFault:
    """Compare a log with what was written."""
    total = LogFault()
    for partition in _partitions(log, stints):
        numbers = log.get(partition, _NONE)
        wanted, allowed = _written(partition, stints)
        firsts = _firsts(numbers)
        known = firsts[np.isin(firsts, allowed)]
        total += LogFault(
            records=int(wanted.size),
            lost=int(np.setdiff1d(wanted, numbers).size),
            doubled=int(numbers.size - firsts.size),
            reordered=_reordered(known),
            late=_behind_the_highest(known // STRIDE),
            foreign=int(firsts.size - known.size),
        )
    return total


def judge_reading(reading: Log, stints: Sequence[Stint]) -> ReadFault:
    """Compare what a group has read, on all clusters one after the other, with what was written."""
    found = judge_log(reading, stints)
    return ReadFault(
        records=found.records,
        missed=found.lost,
        again=found.doubled,
        reordered=found.reordered,
        foreign=found.foreign,
    )


def joined(readings: Sequence[Log]) -> dict[int, Numbers]:
    """Return several readings as one, in their order."""
    partitions = sorted({partition for one in readings for partition in one})
    return {at: np.concatenate([one.get(at, _NONE) for one in readings]) for at in partitions}


def read_again(earlier: Log, later: Log) -> int:
    """Count the readings of `later` that an earlier one, or `later` itself, has had before."""
    before = sum(_distinct(earlier, at) for at in earlier)
    both = joined([earlier, later])
    fresh = sum(_distinct(both, at) for at in both) - before
    return sum(int(numbers.size) for numbers in later.values()) - fresh


def alone(ours: Log, theirs: Log) -> dict[int, Numbers]:
    """Return the records of one log that the other one lacks, by partition; only those that have any."""
    found = {at: np.setdiff1d(numbers, theirs.get(at, _NONE)) for at, numbers in ours.items()}
    return {at: numbers for at, numbers in found.items() if numbers.size}


def is_delta(written_bytes: int, difference_bytes: int) -> bool:
    """Whether a failback wrote no more than the difference and 1 % of it."""
    return written_bytes <= difference_bytes * (1 + MOST_ABOVE_DIFFERENCE)


def _partitions(log: Log, stints: Sequence[Stint]) -> list[int]:
    return sorted(log.keys() | {at for stint in stints for at in stint.offered})


def _written(partition: int, stints: Sequence[Stint]) -> tuple[Numbers, Numbers]:
    """Return the numbers that must be there, and those that may be."""

    def ranges(ends: Sequence[Mapping[int, int]]) -> Numbers:
        parts = [
            np.arange(stint.first, end.get(partition, stint.first)) for stint, end in zip(stints, ends, strict=True)
        ]
        return np.concatenate([_NONE, *parts])

    return ranges([one.acknowledged for one in stints]), ranges([one.offered for one in stints])


def _firsts(numbers: Numbers) -> Numbers:
    """Return the first of each number, in their order."""
    _, first_at = np.unique(numbers, return_index=True)
    return numbers[np.sort(first_at)]


def _reordered(firsts: Numbers) -> int:
    return sum(_behind_the_highest(firsts[firsts // STRIDE == stint]) for stint in np.unique(firsts // STRIDE))


def _behind_the_highest(values: Numbers) -> int:
    """Count the values that follow a higher one."""
    return int(np.count_nonzero(values < np.maximum.accumulate(values))) if values.size else 0


def _distinct(log: Log, partition: int) -> int:
    return int(np.unique(log[partition]).size)
