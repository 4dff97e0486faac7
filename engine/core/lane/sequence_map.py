"""Maps a lane's producer sequences to source offsets, and records how much of that map is durable."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import msgspec

from engine.core.position.announced_runs import Ahead
from engine.core.position.position import Position, Run, stretches

_LAST = 2**63
_STEADY = 3
"""Runs of equal shape in a row after which more of them are expected."""
_GROWTH, _MOST_AHEAD = 4, 1024
"""Expected runs per run of equal shape seen so far, and most expected runs."""
_STALE = 64
"""Runs before the acknowledged position that may stay in memory: forgetting them one by one would cost more."""


class _Expected(msgspec.Struct):
    """The runs expected after the last run: the next one, the shape of all, and the version that announces them."""

    sequence: int
    source: int
    shape: Run
    repeats: int
    version: int


class SequenceMap:
    """Runs (sequence -> source offset) in which both grow alike; runs before the acknowledged position are forgotten.

    `sequence` is the next sequence to hand out. Every run has a version. A stored position or announcement must name a
    run before anything after its start is appended. `version` grows with each new run, so a position written at version
    v makes every run up to v durable, even if runs were cut or replaced since. After an atomic position only that
    position needs to be durable: later appends are rolled back, or they commit together with the next position.

    Runs that repeat one shape are expected to go on so (`look_ahead`). A run that begins as expected has the version
    that announced it. Where the source differs, a run begins that is new, even if its records follow the last ones:
    the durable runs name another source offset there.
    """

    def __init__(self, position: Position) -> None:
        self.sequence = position.sequence
        self.version = 1
        self.undurable_from: int | None = position.sequence
        self._durable_version = 0
        self._atomic = position.atomic
        self._source_next = self._skipped_to = position.source_next
        self._runs: list[Run] = list(position.runs) or [(position.sequence, position.source_next)]
        self._versions = [1] * len(self._runs)
        self._start = self._runs[-1]
        self._shape: Run | None = None
        self._alike = 0
        self._expected: _Expected | None = None

    @property
    def pending(self) -> int:
        """The number of runs in memory."""
        return len(self._runs)

    def extend(self, source_base: int, record_count: int) -> None:
        """Add consecutive source records; start another run if they do not follow the last ones."""
        if source_base != self._source_next:
            self._begin_run(source_base)
        expected = self._expected
        if expected is not None and expected.sequence < self.sequence + record_count:
            self._differ(expected.sequence, source_base + expected.sequence - self.sequence)
        self.sequence += record_count
        self._source_next = self._skipped_to = source_base + record_count

    def skip(self, source_next: int) -> None:
        """Note that no record follows below this source offset."""
        self._skipped_to = max(self._skipped_to, source_next)

    def _begin_run(self, source_base: int) -> None:
        if self._runs[-1][0] == self.sequence:  # nothing was added to the last run: the new one takes its place
            self._runs.pop()
            self._versions.pop()
            self._expected, self._alike = None, 0
        expected = self._expected
        if expected is not None and (expected.sequence, expected.source) == (self.sequence, source_base):
            self._add_run(self.sequence, source_base, expected.version)
            expected.repeats -= 1
            expected.sequence += expected.shape[0]
            expected.source += expected.shape[1]
            if not expected.repeats:
                self._expected = None
        else:
            self._differ(self.sequence, source_base)

    def _differ(self, sequence: int, source: int) -> None:
        """Start a run that no durable position names."""
        self._expected = None
        self.version += 1
        self._add_run(sequence, source, self.version)

    def _add_run(self, sequence: int, source: int, version: int) -> None:
        self._runs.append((sequence, source))
        self._versions.append(version)
        shape = sequence - self._start[0], source - self._start[1]
        self._alike = self._alike + 1 if shape == self._shape else 1
        self._shape, self._start = shape, (sequence, source)
        if version > self._durable_version and not self._atomic:
            known = self.undurable_from
            self.undurable_from = sequence if known is None else min(known, sequence)

    # --- what a position or an announcement names ------------------------------------------------------------

    def look_ahead(self) -> Ahead | None:
        """Begin the run after skipped offsets, and return the runs to be expected; they count from this version on.

        Call it before the runs of a write are taken: then the write may name what follows too.
        """
        if self._atomic:
            return None
        if self._skipped_to > self._source_next:
            self._begin_run(self._skipped_to)
            self._source_next = self._skipped_to
        if self._expected is None and self._alike >= _STEADY and self._shape is not None:
            (records, step), (sequence, source) = self._shape, self._runs[-1]
            if 0 < records < step and sequence + records >= self.sequence:
                self.version += 1
                repeats = min(_MOST_AHEAD, _GROWTH * self._alike)
                self._expected = _Expected(sequence + records, source + step, self._shape, repeats, self.version)
        return None if self._expected is None else Ahead(*self._expected.shape, self._expected.repeats)

    def expect_nothing(self) -> None:
        """Expect no more runs: the next position does not name them.

        Until it is durable, an earlier one may still name them. So whatever follows counts as a new run.
        """
        if self._expected is not None:
            self._expected, self._alike = None, 0
            self._begin_run(self._skipped_to)
            self._source_next = self._skipped_to

    def new_runs(self) -> tuple[Run, ...]:
        """Return the runs that no durable position or announcement names; the last run if there are none."""
        at = min(bisect_right(self._versions, self._durable_version), len(self._runs) - 1)
        return tuple(self._runs[at:])

    def runs_from(self, sequence: int) -> tuple[Run, ...]:
        """Return the runs that cover `sequence` and everything after it, and forget the older runs."""
        at = max(0, bisect_right(self._runs, (sequence, _LAST)) - 1)
        del self._runs[:at], self._versions[:at]
        return tuple(self._runs)

    def forget(self, sequence: int) -> None:
        """Forget runs that end at or before `sequence`, if there are many."""
        if len(self._runs) > _STALE and self._runs[_STALE][0] <= sequence:
            self.runs_from(sequence)

    # --- queries ---------------------------------------------------------------------------------------------

    def source_of(self, sequence: int) -> int | None:
        """Return the source offset of a sequence; None if its run was forgotten."""
        at = bisect_right(self._runs, (sequence, _LAST)) - 1
        if at < 0:
            return None
        first, source = self._runs[at]
        return source + (sequence - first)

    def stretches(self, sequence: int, count: int) -> Iterator[tuple[int, int]]:
        """Yield (source offset, records) of the `count` records from a sequence on (see `position.stretches`)."""
        return stretches(self._runs, sequence, count)

    def holds_back(self, end_sequence: int) -> bool:
        """Whether a batch that ends before `end_sequence` reaches past the start of a run that is not durable yet."""
        return self.undurable_from is not None and end_sequence > self.undurable_from

    # --- changes ---------------------------------------------------------------------------------------------

    def on_durable(self, version: int) -> None:
        """Note that a position or announcement written at `version` is durable."""
        self._durable_version = version = max(self._durable_version, version)
        at = len(self._versions) if self._atomic else bisect_right(self._versions, version)
        self.undurable_from = self._runs[at][0] if at < len(self._runs) else None

    def cut(self, sequence: int) -> None:
        """Forget everything added from `sequence` on; the lane reads it again from the source.

        A stored position may name a forgotten run, and another replica (KIP-392, or a new leader) may have records
        where that run had none. So the continuation counts as a new run: nothing is appended after the cut before a
        position without the forgotten runs is durable.
        """
        kept = bisect_left(self._runs, (sequence, -1), lo=1)
        forgotten = kept < len(self._runs)
        del self._runs[kept:], self._versions[kept:]
        self.sequence = sequence
        first, source = self._runs[-1]
        self._source_next = self._skipped_to = source + (sequence - first)
        if forgotten:
            self._expected, self._alike = None, 0
            self._start = self._runs[-1]
            self._begin_run(self._source_next)
