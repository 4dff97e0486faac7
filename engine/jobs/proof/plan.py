"""Plans the reading of a proof: cuts lanes into pieces, and gathers pieces into waves. Pure.

lane   one partition, the stretch of its source log that is to be proven, and the runs of its map there
piece  a part of a lane that one Spark job reads, at most one of each lane
wave   the pieces of one job
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from policies.model import LaneName

Offsets = npt.NDArray[np.int64]


class MapColumns:
    """Runs of one lane's map as columns, ascending on both sides; offsets between them hold no copied record."""

    def __init__(self, source: Any, target: Any, count: Any) -> None:
        self.source: Offsets = np.asarray(source, np.int64)
        self.target: Offsets = np.asarray(target, np.int64)
        self.count: Offsets = np.asarray(count, np.int64)
        self._ends = self.source + self.count, self.target + self.count

    def __len__(self) -> int:
        return len(self.source)

    @property
    def records(self) -> int:
        """Count the copied records."""
        return int(self.count.sum())

    def at(self, source_offset: int) -> int:
        """Return the number of the first run that ends behind a source offset."""
        return int(np.searchsorted(self._ends[0], source_offset, "right"))

    def has(self, source_offset: int) -> bool:
        """Whether the record at a source offset was copied."""
        at = self.at(source_offset)
        return at < len(self) and bool(self.source[at] <= source_offset)

    def clip(self, source_from: int, source_to: int) -> "MapColumns":
        """Return the runs within a stretch of the source."""
        first = self.at(source_from)
        last = np.searchsorted(self.source, source_to, "left")
        source, target, count = (column[first:last] for column in (self.source, self.target, self.count))
        cut = np.maximum(source_from - source, 0)
        ends = np.minimum(source + count, source_to)
        return MapColumns(source + cut, target + cut, ends - source - cut)

    def below(self, source_offsets: Any) -> Offsets:
        """Count the copied records below each of some source offsets."""
        at = np.searchsorted(self.source, source_offsets, "left")
        summed, ends = np.append(0, np.cumsum(self.count)), np.append(np.int64(0), self._ends[0])
        found: Offsets = summed[at] - np.maximum(ends[at] - source_offsets, 0)
        return found

    def target_of(self, source_offset: int, end: int) -> int:
        """Return the target offset of the first copied record at or after a source offset; `end` if none exists."""
        return _first(self.source, self.target, self._ends[0], source_offset, end)

    def source_of(self, target_offset: int, end: int) -> int:
        """Return the source offset of the first copied record at or after a target offset; `end` if none exists."""
        return _first(self.target, self.source, self._ends[1], target_offset, end)

    def behind(self, source_offset: int, begin: int) -> int:
        """Return the target offset after the last copied record below a source offset; `begin` if none exists."""
        at = int(np.searchsorted(self.source, source_offset, "left")) - 1
        return begin if at < 0 else int(self.target[at] + min(source_offset - self.source[at], self.count[at]))

    def source_before(self, target_offset: int, begin: int) -> int:
        """Return the source offset of the last copied record below a target offset; `begin` if none exists."""
        at = int(np.searchsorted(self.target, target_offset, "left")) - 1
        return begin if at < 0 else int(self.source[at] + min(target_offset - self.target[at], self.count[at]) - 1)


def _first(keys: Offsets, values: Offsets, ends: Offsets, offset: int, end: int) -> int:
    at = int(np.searchsorted(ends, offset, "right"))
    return end if at == len(keys) else int(values[at] + max(0, offset - keys[at]))


class ProofLane(msgspec.Struct, kw_only=True):
    """A lane to be proven: source offsets [source_from, source_to), whose copy is `target_from` to `target_to`.

    `runs`: the map's runs of that stretch. `*_bounds`: each log's start, and the offset up to which it can be read.
    """

    name: LaneName
    runs: MapColumns
    source_from: int
    source_to: int
    target_from: int
    target_to: int
    source_bounds: tuple[int, int]
    target_bounds: tuple[int, int]
    source_compacts: bool = False
    target_compacts: bool = False
    left_out: frozenset[int] = frozenset()
    """Source offsets of records that the target refused and that were left out (`raymirror.refused`)."""
    replayed: frozenset[int] = frozenset()
    """Target offsets of such records that were replayed: each stands behind the place that it would have had."""
    stamped: bool = False
    """The target gives records its own timestamp (LogAppendTime)."""

    @property
    def compacts(self) -> bool:
        """Whether compaction may remove records from within one of the logs."""
        return self.source_compacts or self.target_compacts


class LanePart(NamedTuple):
    """A part of a lane (by the lane's number), with its part of the map."""

    lane: int
    source_from: int
    source_to: int
    target_from: int
    target_to: int
    runs: MapColumns

    @property
    def offsets(self) -> int:
        """Count the source offsets."""
        return self.source_to - self.source_from


def expected(piece: LanePart, range_records: int) -> list[int]:
    """Count the copied records in each range of `range_records` source offsets, from the piece's first offset on."""
    starts = np.arange(piece.source_from, piece.source_to, range_records)
    found: list[int] = np.diff(piece.runs.below(np.append(starts, piece.source_to))).tolist()
    return found


def piece_of(number: int, lane: ProofLane, source_from: int, source_to: int) -> LanePart:
    """Cut a piece out of a lane; the target's offsets between two pieces belong to the first of them."""
    low = lane.target_from if source_from <= lane.source_from else lane.runs.target_of(source_from, lane.target_to)
    high = lane.target_to if source_to >= lane.source_to else lane.runs.target_of(source_to, lane.target_to)
    return LanePart(number, source_from, source_to, low, high, lane.runs.clip(source_from, source_to))


def pieces(number: int, lane: ProofLane, most_records: int, most_runs: int) -> Iterator[LanePart]:
    """Cut a lane into pieces; a lane with a compacted log stays whole: a record at its end may supersede any other."""
    at = lane.source_from
    while at < lane.source_to:
        end = lane.source_to if lane.compacts else min(lane.source_to, at + most_records)
        first = lane.runs.at(at)
        if not lane.compacts and first + most_runs < len(lane.runs):
            end = min(end, int(lane.runs.source[first + most_runs]))
        yield piece_of(number, lane, at, end)
        at = end


def waves(lanes: Sequence[ProofLane], most_records: int, most_runs: int, most_lanes: int) -> Iterator[list[LanePart]]:
    """Gather pieces into waves, in the order of their lanes, at most one of each lane, up to one of the limits."""
    left = deque(
        (number, pieces(number, lane, most_records, most_runs))
        for number, lane in enumerate(lanes)
        if lane.source_from < lane.source_to
    )
    wave, records, runs, seen = list[LanePart](), 0, 0, set[int]()
    while left:
        number, rest = left.popleft()
        piece = next(rest, None)
        if piece is None:
            continue
        full = records + piece.offsets > most_records or runs + len(piece.runs) > most_runs or len(wave) >= most_lanes
        if wave and (full or number in seen):
            yield wave
            wave, records, runs, seen = [], 0, 0, set()
        wave.append(piece)
        records, runs = records + piece.offsets, runs + len(piece.runs)
        seen.add(number)
        left.append((number, rest))
    if wave:
        yield wave


def buckets(found: Iterable[LanePart]) -> tuple[list[tuple[int, int, int]], dict[str, Offsets]]:
    """Arrange the runs of pieces for a lookup by equality: the target offsets of a piece in buckets of one width.

    Returns (lane, first target offset, width) per piece, and columns lane, bucket, first, behind, shift: each run once
    for every bucket that it reaches into. There are about as many buckets as runs, so at most two rows per run.
    """
    widths: list[tuple[int, int, int]] = []
    rows: list[Offsets] = []
    for piece in found:
        runs = piece.runs
        if not len(runs):
            widths.append((piece.lane, piece.target_from, 1))
            continue
        base = int(runs.target[0])
        span = int(runs.target[-1] + runs.count[-1]) - base
        width = -(-span // len(runs))
        widths.append((piece.lane, base, width))
        first = (runs.target - base) // width
        times = (runs.target + runs.count - 1 - base) // width - first + 1
        run = np.repeat(np.arange(len(runs)), times)
        nth = np.arange(len(run)) - np.repeat(np.cumsum(times) - times, times)
        behind, shift = runs.target + runs.count, runs.source - runs.target
        lane = np.full(len(run), piece.lane)
        rows.append(np.stack([lane, first[run] + nth, runs.target[run], behind[run], shift[run]]))
    table = np.concatenate(rows, axis=1) if rows else np.empty((5, 0), np.int64)
    return widths, dict(zip(("lane", "bucket", "first", "behind", "shift"), table, strict=True))
