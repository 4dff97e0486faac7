"""Maps a lane's producer sequences to source offsets, and records how much of that map is durable."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from engine.core.position.position import Position, Run, stretches

_LAST = 2**63


class SequenceMap:
    """Runs (sequence -> source offset) in which both grow alike; runs before the acknowledged position are forgotten.

    `sequence` is the next sequence to hand out. Every run has a version. A stored position must name a run before
    anything after its start is appended. `version` grows with each new run, so a position written at version v makes
    every run up to v durable, even if runs were cut or replaced since. After an atomic position only that position
    needs to be durable: later appends are rolled back, or they commit together with the next position.
    """

    def __init__(self, position: Position) -> None:
        self.sequence = position.sequence
        self.version = 1
        self.undurable_from: int | None = position.sequence
        self._atomic = position.atomic
        self._source_next = position.source_next
        self._runs: list[Run] = list(position.runs) or [(position.sequence, position.source_next)]
        self._versions = [1] * len(self._runs)

    @property
    def pending(self) -> int:
        """The number of runs in memory."""
        return len(self._runs)

    def extend(self, source_base: int, record_count: int) -> None:
        """Add consecutive source records; start another run if they do not follow the last ones."""
        if source_base != self._source_next:
            self._begin_run(source_base)
        self.sequence += record_count
        self._source_next = source_base + record_count

    def _begin_run(self, source_base: int) -> None:
        if self._runs[-1][0] == self.sequence:  # nothing was added to the last run: the new one takes its place
            self._runs.pop()
            self._versions.pop()
        self.version += 1
        self._runs.append((self.sequence, source_base))
        self._versions.append(self.version)
        if not self._atomic:
            known = self.undurable_from
            self.undurable_from = self.sequence if known is None else min(known, self.sequence)

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

    def runs_from(self, sequence: int) -> tuple[Run, ...]:
        """Return the runs that cover `sequence` and everything after it, and forget the older runs."""
        at = max(0, bisect_right(self._runs, (sequence, _LAST)) - 1)
        del self._runs[:at], self._versions[:at]
        return tuple(self._runs)

    def holds_back(self, end_sequence: int) -> bool:
        """Whether a batch that ends before `end_sequence` reaches past the start of a run that is not durable yet."""
        return self.undurable_from is not None and end_sequence > self.undurable_from

    def on_durable(self, version: int) -> None:
        """Note that a position written at `version` is durable."""
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
        self._source_next = source + (sequence - first)
        if forgotten:
            self._begin_run(self._source_next)
