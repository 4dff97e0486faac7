"""Names the differences of a stretch: aligns the records of both sides by content. Pure.

If the copy was written again, a lost record moves all records behind it by one place. So records are matched by content
first, also those that are in the right place. The longest chain of matches that ascends on both sides is in order,
wherever it moved to; a match outside the chain is reordered. A record without a match is missing or extra; if one of
each share a place, the record is altered. Records that neither side has cannot be found this way: only the map says
that they should exist (`gone`).
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from engine.jobs.proof.model import DifferenceKind
from engine.jobs.proof.plan import MapColumns

LOG_APPEND_TIME = 1
NAMES = ("key", "value", "headers", "timestamp", "timestamp type")


class Content(NamedTuple):
    """A record as hashes: two of the whole; of key, value, headers; the timestamp in us, and its type."""

    h1: int
    h2: int
    key: int
    value: int
    headers: int
    timestamp: int
    kind: int

    @property
    def digest(self) -> tuple[int, int]:
        """The two hashes of the whole record."""
        return self.h1, self.h2


class AlignedPair(NamedTuple):
    """One place on both sides: offsets (-1: no record), `at` the source offset by the map (-1: unknown)."""

    source: int
    target: int
    at: int
    ours: Content | None
    theirs: Content | None

    @property
    def equal(self) -> bool:
        """Whether the copy has the same content as the source record."""
        return self.ours is not None and self.theirs is not None and self.ours.digest == self.theirs.digest


class FoundDifference(NamedTuple):
    """A difference of one lane, by offsets; `records`: how many are GONE in a row, in one run of the map."""

    kind: DifferenceKind
    source: int
    target: int
    what: str = ""
    records: int = 1

    def above(self, source_start: int, target_start: int) -> "FoundDifference | None":
        """Return what is left after retention deleted a part: below the start of a log nothing can be missing."""
        if self.kind is DifferenceKind.GONE:
            by = max(source_start - self.source, target_start - self.target, 0)
            rest = self._replace(source=self.source + by, target=self.target + by, records=self.records - by)
            return rest if rest.records > 0 else None
        eaten = 0 <= self.source < source_start or (
            self.target < target_start and self.kind is not DifferenceKind.EXTRA
        )
        return None if eaten else self


class Aligned(NamedTuple):
    """The differences, and how many places differ only by the timestamp that the target set (LogAppendTime)."""

    found: list[FoundDifference]
    stamped: int


def align(places: Sequence[AlignedPair], place_of: Callable[[int], int]) -> Aligned:
    """Name the differences; `place_of` maps a source offset to its place on the target."""
    ours = {one.source: one.ours for one in places if one.ours is not None}
    theirs = {one.target: one.theirs for one in places if one.theirs is not None}
    at_of = {one.target: one.at for one in places if one.theirs is not None}
    chain, moved = _chained(_matches(ours, theirs))
    found = [FoundDifference(DifferenceKind.REORDERED, source, target) for source, target in moved]
    matched_ours = {source for source, _ in chain} | {source for source, _ in moved}
    matched_theirs = {target for _, target in chain} | {target for _, target in moved}
    free = {target for target in theirs if target not in matched_theirs}
    shifts = _Shifts(chain, place_of)
    stamped = 0
    for source in sorted(source for source in ours if source not in matched_ours):
        place = place_of(source)
        there = next((place + by for by in shifts.around(source) if place + by in free), None)
        if there is None:
            found.append(FoundDifference(DifferenceKind.MISSING, source, place))
            continue
        free.discard(there)
        what = _parts(ours[source], theirs[there])
        if set(what) <= set(NAMES[3:]) and theirs[there].kind == LOG_APPEND_TIME:
            stamped += 1
        else:
            found.append(FoundDifference(DifferenceKind.ALTERED, source, there, ", ".join(what)))
    found += [FoundDifference(DifferenceKind.EXTRA, at_of[target], target) for target in free]
    return Aligned(sorted(found, key=lambda one: place_of(one.source) if one.source >= 0 else one.target), stamped)


def _matches(ours: dict[int, Content], theirs: dict[int, Content]) -> list[tuple[int, int]]:
    """Match equal contents: the first record of a content with the first, and so on; in the order of the source."""
    waiting: defaultdict[tuple[int, int], deque[int]] = defaultdict(deque)
    for target in sorted(theirs):
        waiting[theirs[target].digest].append(target)
    return [
        (source, waiting[ours[source].digest].popleft()) for source in sorted(ours) if waiting.get(ours[source].digest)
    ]


def _chained(matches: Sequence[tuple[int, int]]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Split matches into the longest chain that ascends on both sides, and the rest."""
    ends: list[int] = []  # the lowest target that a chain of that length ends with
    last: list[int] = []  # and which match that is
    before = [-1] * len(matches)
    for number, (_, target) in enumerate(matches):
        at = bisect_left(ends, target)
        before[number] = last[at - 1] if at else -1
        ends[at : at + 1] = [target]
        last[at : at + 1] = [number]
    chain = set[int]()
    number = last[-1] if last else -1
    while number >= 0:
        chain.add(number)
        number = before[number]
    return (
        [one for number, one in enumerate(matches) if number in chain],
        [one for number, one in enumerate(matches) if number not in chain],
    )


class _Shifts:
    """Distances by which the records around a place may have moved: 0, or as far as their neighbours in the chain."""

    def __init__(self, chain: Sequence[tuple[int, int]], place_of: Callable[[int], int]) -> None:
        self._sources = [source for source, _ in chain]
        self._by = [target - place_of(source) for source, target in chain]

    def around(self, source: int) -> tuple[int, ...]:
        at = bisect_right(self._sources, source)
        return 0, *self._by[max(at - 1, 0) : at + 1]


def _parts(one: Content, other: Content) -> list[str]:
    """Name the parts that differ."""
    return [name for name, a, b in zip(NAMES, one[2:], other[2:], strict=True) if a != b]


def gone(runs: MapColumns, seen: Iterable[int]) -> list[FoundDifference]:
    """Name the records that the map knows and neither side has; `seen`: source offsets of all records read."""
    numbers = np.repeat(np.arange(len(runs)), runs.count)
    nth = np.arange(len(numbers)) - np.repeat(np.cumsum(runs.count) - runs.count, runs.count)
    sources = runs.source[numbers] + nth
    left = ~np.isin(sources, np.fromiter(seen, np.int64))
    sources, numbers = sources[left], numbers[left]
    begins = np.flatnonzero((np.diff(sources, prepend=-2) != 1) | (np.diff(numbers, prepend=-1) != 0))
    counts = np.diff(np.append(begins, len(sources)))
    targets = sources + (runs.target - runs.source)[numbers]
    return [
        FoundDifference(DifferenceKind.GONE, source, target, records=records)
        for source, target, records in zip(
            sources[begins].tolist(), targets[begins].tolist(), counts.tolist(), strict=True
        )
    ]
