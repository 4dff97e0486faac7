"""The line of a lane: which source offset each producer sequence belongs to, and how much of that is durable."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from engine.core.position.position import Position, Run, stretches

_LAST = 2**63


class SequenceMap:
    """Straight runs (sequence -> source offset), growing at the end, forgotten behind the acknowledged position.

    `sequence` is the next sequence to hand out. Every run has a version; a run must be durable, by a position that
    names it, before anything behind its start is appended. `version` grows with each new run, so a position written
    at version v makes every run up to v durable, whatever was cut or replaced meanwhile. Behind an atomic position
    nothing needs to be durable but that position: what is appended there is rolled back or comes with the next one.
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
        """Runs kept in memory."""
        return len(self._runs)

    def extend(self, source_base: int, record_count: int) -> None:
        """Add consecutive source records, starting another run where the line breaks."""
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
        """Return the source offset of a sequence, None where it was forgotten."""
        at = bisect_right(self._runs, (sequence, _LAST)) - 1
        if at < 0:
            return None
        first, source = self._runs[at]
        return source + (sequence - first)

    def stretches(self, sequence: int, count: int) -> Iterator[tuple[int, int]]:
        """Yield (source offset, records) of the straight stretches behind a sequence (see `position.stretches`)."""
        return stretches(self._runs, sequence, count)

    def runs_from(self, sequence: int) -> tuple[Run, ...]:
        """Return the runs that cover `sequence` and everything behind it, and forget the older ones."""
        at = max(0, bisect_right(self._runs, (sequence, _LAST)) - 1)
        del self._runs[:at], self._versions[:at]
        return tuple(self._runs)

    def holds_back(self, end_sequence: int) -> bool:
        """Whether a batch that ends before `end_sequence` reaches behind a run that is not durable yet."""
        return self.undurable_from is not None and end_sequence > self.undurable_from

    def on_durable(self, version: int) -> None:
        """A position written at `version` is durable."""
        at = len(self._versions) if self._atomic else bisect_right(self._versions, version)
        self.undurable_from = self._runs[at][0] if at < len(self._runs) else None

    def cut(self, sequence: int) -> None:
        """Forget what was added from `sequence` on; it will be read again from the source.

        A run that is forgotten may be in a stored position, and another replica (KIP-392, or a new leader) may have
        records where that run had none. So the straight continuation counts as a new run: nothing is appended behind
        the cut before a position is durable that no longer names the forgotten ones.
        """
        kept = bisect_left(self._runs, (sequence, -1), lo=1)
        forgotten = kept < len(self._runs)
        del self._runs[kept:], self._versions[kept:]
        self.sequence = sequence
        first, source = self._runs[-1]
        self._source_next = source + (sequence - first)
        if forgotten:
            self._begin_run(self._source_next)
