"""The parts of a lane's offset map: runs, full blocks of runs, and the tail after them, which grows with every append.

`engine/core/offset_map/offset_map.py` has a diagram and the invariants.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

RUNS_PER_BLOCK = 128
"""Runs. Large enough that a block needs few bytes per run, small enough that the tail in every position is short."""
MOST_CARRIED = 160
"""Runs of changing shape that offset syncs may carry, each counted once per sync, before the tail becomes a block.

Each such run costs a sync about 1.3 bytes after compression, and a block about 200, whatever its size. So the runs of a
slow lane, which every sync would carry until there are 128, become smaller blocks. Runs of one shape compress to
nothing, and do not count.
"""


class MapRun(NamedTuple):
    """`count` records, consecutive from `source` on one side and from `target` on the other."""

    source: int
    target: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which is not used here


class MapStart(msgspec.Struct, frozen=True, gc=False):
    """The start of a lane's map; `first`: no copied record lies before it."""

    source: int
    target: int
    first: bool


class MapHead(msgspec.Struct, frozen=True):
    """The end of a map: together with the blocks numbered below `blocks` it is the whole map.

    All source offsets below `source_next` were copied or deliberately skipped; no copied record is at `target_next` or
    above.
    """

    generation: int
    blocks: int
    source_next: int
    target_next: int
    runs: tuple[MapRun, ...]


class MapBlock(msgspec.Struct, frozen=True):
    """One full block of a lane's map."""

    number: int
    generation: int
    runs: tuple[MapRun, ...]


def check_runs(runs: Sequence[MapRun]) -> None:
    """Raise ValueError unless the runs ascend on both sides without overlap and each has records (invariant 1)."""
    if any(run.count <= 0 or run.source < 0 or run.target < 0 for run in runs):
        raise ValueError("a run without records, or at a negative offset")
    for last, run in pairwise(runs):
        if run.source < last.source + last.count or run.target < last.target + last.count:
            raise ValueError(f"run {tuple(run)} after {tuple(last)}")


def cut_runs(runs: Iterable[MapRun], source_next: int) -> tuple[MapRun, ...]:
    """Return the runs, cut to the records below a source offset."""
    return tuple(
        run if run.source + run.count <= source_next else MapRun(run.source, run.target, source_next - run.source)
        for run in runs
        if run.source < source_next
    )


def source_at(runs: Sequence[MapRun], target_offset: int) -> int | None:
    """Return the source offset of the record at a target offset; None if the runs have no record there."""
    at = bisect_right(runs, target_offset, key=lambda run: run.target) - 1
    if at < 0 or target_offset >= runs[at].target + runs[at].count:
        return None
    return runs[at].source + target_offset - runs[at].target


def records_between(runs: Sequence[MapRun], first: int, end: int) -> tuple[MapRun, ...]:
    """Return the records that the runs have at target offsets from `first` on and below `end`."""
    at = max(0, bisect_right(runs, first, key=lambda run: run.target) - 1)
    until = bisect_left(runs, end, key=lambda run: run.target)
    return cut_before_target(cut_at_target(runs[at:until], end), first)


def cut_at_target(runs: Iterable[MapRun], target_next: int) -> tuple[MapRun, ...]:
    """Return the runs, cut to the records below a target offset."""
    return tuple(
        run if run.target + run.count <= target_next else MapRun(run.source, run.target, target_next - run.target)
        for run in runs
        if run.target < target_next
    )


def cut_before_target(runs: Iterable[MapRun], target: int) -> tuple[MapRun, ...]:
    """Return the runs, cut to the records at a target offset or behind it."""
    cut = ((run, max(0, target - run.target)) for run in runs)
    return tuple(MapRun(run.source + out, run.target + out, run.count - out) for run, out in cut if out < run.count)


def join_runs(runs: Iterable[MapRun]) -> tuple[MapRun, ...]:
    """Join ascending runs that follow each other on both sides."""
    tail = MapTail(0, MapStart(0, 0, first=True), 0, ())
    for run in runs:
        tail.append(*run)
    return tail.runs


class MapTail:
    """The runs of a lane after its last durable block; they grow with every acknowledgement."""

    def __init__(self, generation: int, start: MapStart, blocks: int, runs: Sequence[MapRun]) -> None:
        check_runs(runs)
        self.generation = generation
        self.start = start
        self.blocks = blocks
        self._closed: list[MapRun] = []
        self._ends: list[int] = []
        """The ends of the full blocks, as indexes of the closed runs."""
        self._sealed_to = self._compared_to = 0
        self._changes = self._carried = 0
        """Changes of shape among the closed runs after the last full block; how many of them the syncs carried."""
        for run in runs[:-1]:
            self._close(run)
        self._source, self._target, self._count = runs[-1] if runs else (-1, -1, 0)
        self.to_remove: list[int] = []
        """Numbers of blocks to remove, because a durable position no longer needs them."""

    @property
    def pending(self) -> int:
        """The number of runs that are in no durable block."""
        return len(self._closed) + (self._count > 0)

    @property
    def runs(self) -> tuple[MapRun, ...]:
        """All runs after the last durable block; the last one still grows."""
        if not self._count:
            return ()
        return (*self._closed, MapRun(self._source, self._target, self._count))

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a position that describe the map."""
        source, target, first = self.start.source, self.start.target, self.start.first
        place = {"map_source": source, "map_target": target, "map_first": first}
        return {**place, "map_blocks": self.blocks, "map_tail": self.runs}

    def append(self, source: int, target: int, count: int) -> None:
        """Add consecutive records that the target acknowledged, right after the present end or with a gap between."""
        if source - self._source == self._count == target - self._target:
            self._count += count
            return
        ends = self._source + self._count, self._target + self._count
        if source < ends[0] or target < ends[1]:
            raise AssertionError(f"{source} -> {target} after {ends[0]} -> {ends[1]}")
        if self._count:
            self._close(MapRun(self._source, self._target, self._count))
        self._source, self._target, self._count = source, target, count

    def _close(self, run: MapRun) -> None:
        self._closed.append(run)
        if len(self._closed) - self._sealed_to >= RUNS_PER_BLOCK:
            self._seal()

    def _seal(self) -> None:
        self._sealed_to = self._compared_to = len(self._closed)
        self._ends.append(self._sealed_to)
        self._changes = self._carried = 0

    def carried(self) -> None:
        """Note that an offset sync carries the tail once more; a tail that many syncs have carried becomes a block."""
        for at in range(max(self._compared_to, self._sealed_to + 2), len(self._closed)):
            before, last, run = self._closed[at - 2 : at + 1]
            gaps = run.source - last.source, run.target - last.target
            self._changes += (*gaps, run.count) != (
                last.source - before.source,
                last.target - before.target,
                last.count,
            )
        self._compared_to = len(self._closed)
        self._carried += self._changes
        if self._carried >= MOST_CARRIED and len(self._closed) > self._sealed_to:
            self._seal()

    def append_all(self, stretches: Iterable[tuple[int, int]], target: int) -> None:
        """Add (source offset, records) stretches that follow each other on the target without a gap."""
        for source, count in stretches:
            self.append(source, target, count)
            target += count

    def head(self, source_next: int, target_next: int) -> MapHead:
        """Return a snapshot of the map for a lane with these end offsets."""
        return MapHead(self.generation, self.blocks, source_next, target_next, self.runs)

    @property
    def has_sealed(self) -> bool:
        """Whether there is a full block that is not durable yet."""
        return bool(self._ends)

    def sealed(self) -> Iterator[MapBlock]:
        """Yield the full blocks that are not durable yet; their runs no longer grow."""
        for number, (begin, end) in enumerate(pairwise((0, *self._ends)), self.blocks):
            yield MapBlock(number, self.generation, tuple(self._closed[begin:end]))

    def on_durable(self, blocks: int) -> None:
        """Forget the runs of durable blocks; `blocks`: the number of durable blocks, counted from the map's start."""
        durable = blocks - self.blocks
        if durable:
            end = self._ends[durable - 1]
            del self._closed[:end]
            self._ends = [one - end for one in self._ends[durable:]]
            self._sealed_to, self._compared_to = self._sealed_to - end, self._compared_to - end
        self.blocks = blocks
