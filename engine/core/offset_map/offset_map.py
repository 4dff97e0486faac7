"""The exact offset map of one lane: from source offsets to target offsets, and back.

    source log   40 41 42 [43 = marker] 44 45 46        run (40 -> 90, 3), run (44 -> 94, 3)
    target log   90 91 92 [93 = barrier] 94 95 96

A *run* is a range of records that are consecutive on both sides. A lane's map is the list of its runs: full blocks of
runs on a compacted topic, and a *head*, the runs after the last durable block. The newest position or offset sync holds
the head. A lane keeps a `MapTail`, which only grows; a reader keeps an `OffsetMap`.

Invariants
1. Runs ascend on both sides and do not overlap; every run has records.
2. Within one *generation* (one ownership of the lane) the map only grows. Only a new owner cuts it (if the target lost
   records). So heads of one generation are ordered by their ends, and a block of a newer generation than the head
   means that the head is out of date.
3. A block is durable before any head counts it; blocks numbered from `head.blocks` on are no part of the map.
4. Every answer follows from the whole map: if a part is not in memory, the answer names that part.
"""

import enum
from array import array
from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from engine.core.offset_map.map_runs import MapBlock, MapHead, MapRun, MapStart, MapTail, check_runs

__all__ = [
    "CLAMPED",
    "NEAR",
    "Columns",
    "How",
    "MapBlock",
    "MapHead",
    "MapRun",
    "MapStart",
    "MapTail",
    "OffsetMap",
    "Translation",
]


class How(enum.Enum):
    """How an offset was found, or why it was not."""

    RUN = "run"
    """This record was copied."""
    REFINED = "refined"
    """This offset was not copied; the answer is the first copied record after it."""
    END = "end"
    """Everything before this offset was copied and nothing after it yet: the end of the copy."""
    BEYOND = "beyond"
    """The copy has not reached this offset yet."""
    BEFORE = "before"
    """The map starts later, and records were copied before its start."""
    UNREAD = "unread"
    """The block with the answer is not in memory."""
    STALE = "stale"
    """No head was read yet, or a block is newer than the head: a newer head will follow."""


CLAMPED = "log start"
"""The method of an answer that was raised to the target's log start."""
NEAR = "MM2 sync"
"""The method of an approximate answer from MM2's syncs, which is never ahead of the true one."""


class Translation(msgspec.Struct, frozen=True, gc=False):
    """An answer: `offset` is -1 if there is none; `block`: the number of the block to read if `how` is UNREAD."""

    how: How
    offset: int = -1
    block: int = -1

    @property
    def exact(self) -> bool:
        """Whether there is an answer; all answers are exact."""
        return self.offset >= 0


_BEYOND = Translation(How.BEYOND)
_BEFORE = Translation(How.BEFORE)
_STALE = Translation(How.STALE)

Columns = tuple["array[int]", "array[int]", "array[int]"]
"""Sources, targets and counts of consecutive runs: 24 bytes per run."""
_BY_SOURCE, _BY_TARGET, _COUNTS = 0, 1, 2


def _columns(runs: Sequence[MapRun]) -> Columns:
    return (
        array("q", [run.source for run in runs]),
        array("q", [run.target for run in runs]),
        array("q", [run.count for run in runs]),
    )


class OffsetMap:
    """The map of one lane as a reader knows it: an anchor of 32 bytes per block, some blocks' runs, and the head."""

    def __init__(self) -> None:
        self.head: MapHead | None = None
        self.start: MapStart | None = None
        self.loaded_runs = 0
        self._places = array("q")
        self._anchors = array("q"), array("q")
        self._generation = -1  # the newest generation of all blocks
        self._first = 0  # the lowest block from which on all blocks are known
        self._checked = 0
        self._loaded: dict[int, Columns] = {}  # least recently used first
        self._tail: Columns = _columns(())

    # --- input: blocks and heads -----------------------------------------------------------------------------

    @property
    def blocks(self) -> int:
        """One above the highest block number seen."""
        return len(self._places)

    def place(self, number: int) -> int:
        """Return the offset of a block on the map topic."""
        return self._places[number]

    def add_block(self, block: MapBlock, place: int) -> None:
        """Add a block that is at offset `place` of the map topic; a later block of the same number replaces it.

        Its runs stay in memory until `thin`. Raises ValueError for runs that violate invariant 1.
        """
        check_runs(block.runs)
        if not block.runs:
            raise ValueError(f"block {block.number} has no runs")
        for column in (self._places, *self._anchors):
            column.extend([-1] * (block.number + 1 - len(column)))
        self._places[block.number] = place
        self._anchors[_BY_SOURCE][block.number] = block.runs[0].source
        self._anchors[_BY_TARGET][block.number] = block.runs[0].target
        self._generation = max(self._generation, block.generation)
        self._checked = min(self._checked, block.number)
        self._drop(block.number)
        self.load(block)

    def remove_block(self, number: int) -> None:
        """Note that a block was removed from the map topic, because its records are no longer on the target."""
        if number < self.blocks:
            self._drop(number)
            self._places[number] = -1
            if self.head is not None and number < self.head.blocks:
                self._first = max(self._first, number + 1)

    def load(self, block: MapBlock) -> None:
        """Store the runs of a block that was read back."""
        if block.number not in self._loaded:
            self._loaded[block.number] = _columns(block.runs)
            self.loaded_runs += len(block.runs)

    def thin(self, keep_runs: int) -> None:
        """Drop the runs of the least recently used blocks until at most `keep_runs` runs are left; anchors stay."""
        for number in list(self._loaded):
            if self.loaded_runs <= keep_runs:
                break
            self._drop(number)

    def _drop(self, number: int) -> None:
        columns = self._loaded.pop(number, None)
        if columns is not None:
            self.loaded_runs -= len(columns[_COUNTS])

    def wants(self, head: MapHead) -> bool:
        """Whether a head is newer than the present one."""
        ours = self.head
        return ours is None or (head.generation, head.source_next, head.target_next, head.blocks) > (
            ours.generation,
            ours.source_next,
            ours.target_next,
            ours.blocks,
        )

    def follow(self, head: MapHead, start: MapStart | None = None) -> bool:
        """Take a head if it is newer, and return whether it was; a head from a position comes with the map's `start`.

        Every block that it counts must have been read by now: a missing block is lost, and the map starts after it.
        Raises ValueError for runs that violate invariant 1.
        """
        if not self.wants(head):
            self._begin_later(head, start)
            return False
        check_runs(head.runs)
        self.head = head
        self.start = start or self.start
        self._tail = _columns(head.runs)
        self._checked = min(self._checked, head.blocks)
        self._first = min(self._first, self._checked)
        for number in range(self._checked, head.blocks):
            self._check(number)
        self._checked = head.blocks
        if head.runs and self._first < head.blocks and not self._fits(head):
            self._first, self._checked = head.blocks, 0  # checked again with the next head
        return True

    def _begin_later(self, head: MapHead, start: MapStart | None) -> None:
        """Take only the new start from a head that is not newer: lower blocks were removed with their records."""
        if self.head is None or self.start is None or start is None or head.generation != self.head.generation:
            return
        if (start.source, start.first) > (self.start.source, self.start.first):
            self.start = start

    def _fits(self, head: MapHead) -> bool:
        last = (column[head.blocks - 1] for column in self._anchors)
        return all(anchor < first for anchor, first in zip(last, head.runs[0], strict=False))

    def _check(self, number: int) -> None:
        """Start the map after a missing block, or at a block that does not follow the previous one."""
        if number >= self.blocks or self._places[number] < 0:
            self._first = number + 1
        elif number > self._first and any(column[number] <= column[number - 1] for column in self._anchors):
            self._first = number

    # --- queries ---------------------------------------------------------------------------------------------

    @property
    def begins(self) -> MapStart | None:
        """The start of the part that can be answered; None before there is a head."""
        if self.head is None or self.start is None:
            return None
        found = self._first_known(self.head)
        return self.start if self._first == 0 or self.start.source >= found.source else found

    def _first_known(self, head: MapHead) -> MapStart:
        """Return the start of the known blocks and runs."""
        if self._first < head.blocks:
            sources, targets = self._anchors
            return MapStart(sources[self._first], targets[self._first], first=False)
        if head.runs:
            return MapStart(head.runs[0].source, head.runs[0].target, first=False)
        return MapStart(head.source_next, head.target_next, first=False)

    def translate(self, source_offset: int) -> Translation:
        """Return the target offset of the first copied record at or after a source offset."""
        return self._answer(source_offset, _BY_SOURCE)

    def source_of(self, target_offset: int) -> Translation:
        """Return the source offset of the first copied record at or after a target offset."""
        return self._answer(target_offset, _BY_TARGET)

    def _answer(self, offset: int, by: int) -> Translation:
        head, begins = self.head, self.begins
        if head is None or begins is None or self._generation > head.generation:
            return _STALE
        if offset > (head.source_next, head.target_next)[by]:
            return _BEYOND
        if offset < (begins.source, begins.target)[by] and not begins.first:
            return _BEFORE
        tail = self._tail
        if tail[by] and offset >= tail[by][0]:
            return _look(tail, by, offset) or self._next(head.blocks + 1, by)
        number = bisect_right(self._anchors[by], offset, self._first, max(self._first, head.blocks)) - 1
        if number < self._first:
            return self._next(self._first, by)
        columns = self._loaded.pop(number, None)
        if columns is None:
            return Translation(How.UNREAD, block=number)
        self._loaded[number] = columns
        return _look(columns, by, offset) or self._next(number + 1, by)

    # --- iteration -------------------------------------------------------------------------------------------

    def numbers(self, source_from: int) -> range:
        """Return the numbers of the blocks with all runs from a source offset on; `head.blocks` stands for the head.

        The first block may end before that offset. Empty if the map cannot answer either.
        """
        head = self.head
        if head is None or self._generation > head.generation:
            return range(0)
        at = bisect_right(self._anchors[_BY_SOURCE], source_from, self._first, max(self._first, head.blocks)) - 1
        return range(max(at, self._first), head.blocks + 1)

    def columns(self, number: int) -> Columns | None:
        """Return sources, targets and counts of a block's runs, or of the head's; None for a block not in memory."""
        return self._tail if self.head is not None and number == self.head.blocks else self._loaded.get(number)

    def _next(self, number: int, by: int) -> Translation:
        """Answer with the first record from a block on; the head's runs count as the block after the last."""
        assert self.head is not None
        if number < self.head.blocks:
            return Translation(How.REFINED, self._anchors[1 - by][number])
        if number == self.head.blocks and self.head.runs:
            return Translation(How.REFINED, self._tail[1 - by][0])
        return Translation(How.END, (self.head.source_next, self.head.target_next)[1 - by])


def _look(columns: Columns, by: int, offset: int) -> Translation | None:
    """Answer from consecutive runs, the first of which starts at or before the offset; None after the last run."""
    keys, values, counts = columns[by], columns[1 - by], columns[_COUNTS]
    at = bisect_right(keys, offset) - 1
    into = offset - keys[at]
    if into < counts[at]:
        return Translation(How.RUN, values[at] + into)
    return Translation(How.REFINED, values[at + 1]) if at + 1 < len(keys) else None
