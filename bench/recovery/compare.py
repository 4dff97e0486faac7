"""Compares what a stock consumer read on both sides, record by record. Pure.

A partition is an array of record numbers, in the order of the consumer.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """How a copy differs from its source, in records.

    `lost`: the source has them, the copy does not. `duplicated`: copies beyond the first of a record. `reordered`:
    first copies that come after a record whose place in the source is behind theirs. `foreign`: the copy has them, the
    source does not (any more).
    """

    records: int = 0
    lost: int = 0
    duplicated: int = 0
    reordered: int = 0
    foreign: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether every record of the source is in the copy, once and in order."""
        return not (self.lost or self.duplicated or self.reordered)

    def __add__(self, other: "Difference") -> "Difference":
        """Sum up two partitions."""
        mine, theirs = msgspec.structs.asdict(self), msgspec.structs.asdict(other)
        return Difference(**{name: mine[name] + theirs[name] for name in mine})


def compare(source: Numbers, copy: Numbers) -> Difference:
    """Compare one partition; the numbers of the source are unique."""
    _, first_at = np.unique(copy, return_index=True)
    firsts = copy[np.sort(first_at)]
    shared = firsts[np.isin(firsts, source)]
    order = np.argsort(source, kind="stable")
    places = order[np.searchsorted(source, shared, sorter=order)] if shared.size else shared
    highest = np.maximum.accumulate(places) if places.size else places
    return Difference(
        records=int(source.size),
        lost=int(np.setdiff1d(source, copy).size),
        duplicated=int(copy.size - firsts.size),
        reordered=int(np.count_nonzero(places < highest)),
        foreign=int(firsts.size - shared.size),
    )


def compare_all(source: Mapping[int, Numbers], copy: Mapping[int, Numbers]) -> Difference:
    """Compare every partition of a topic; a partition that only one side has counts too."""
    nothing: Any = np.array([], dtype=np.int64)
    total = Difference()
    for partition in source.keys() | copy.keys():
        total += compare(source.get(partition, nothing), copy.get(partition, nothing))
    return total
