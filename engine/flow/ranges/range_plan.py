"""Plans in which ranges of offsets a lane is read over several connections at once.

    source log   |== in the lane ==|- range -|- range -|- range -|- range -|.. not asked ..| told end
                             delivered     asked    arrived    asked

Ranges follow each other and are delivered in order. The sizes of earlier batches say how many offsets the bytes of a
range hold. A broker answers from the batch that holds the first offset on. So of a batch that lies across a joint the
later range has all of it, and the earlier one need not. If an answer ends before the next one begins, the offsets
between them become a range of their own, the rest, which is asked for at once. No range reaches beyond an end that the
leader reported, because it would be out of range there.

All ranges of a plan come from one leader in one leader epoch, which every request names: a leader has one history in
its epoch, so what two answers hold belongs together, whatever happens between them. The plan ends with the epoch.
"""

from collections import deque

import msgspec

from engine.core.lane.pending_batch import BufferShare
from engine.flow.ports.ports import Leader, Slice
from engine.flow.ranges.batch_sizes import WHOLE, Aim, BatchSizes
from engine.wire.extent import Extent, extent, first_behind

_MISJUDGED = 4
"""A plan whose ranges hold as many times the bytes that were expected is given up, and another one made."""


class Range(msgspec.Struct, eq=False, kw_only=True):
    """The offsets from `start` up to `stop`, not included; once it has arrived, with its slice of an answer.

    `begins`: the first offset of the first batch, below `start` if the batch lies across it; -1 without a batch.
    `follows`: where the lane continues behind the last batch; -1 without one. `covers`: everything from `start` up to
    there is known.
    """

    start: int
    stop: int
    max_bytes: int
    is_rest: bool = False
    """Whether it fills a hole between two answers: it has no usual size, so nothing is learned from it."""
    is_asked: bool = False
    failures: int = 0
    """Connections that were lost while it was asked for."""
    found: Slice | None = None
    begins: int = -1
    follows: int = -1
    covers: int = -1
    buffer: memoryview = memoryview(b"")
    lease: BufferShare | None = None

    @property
    def first(self) -> int:
        """The first offset that the answer covers."""
        return self.begins if 0 <= self.begins < self.start else self.start

    def drop(self) -> None:
        """Release the memory of the answer."""
        if self.lease is not None:
            self.lease.release()
            self.lease = None


class RangePlan:
    """The ranges of one lane, in order, from `first` on; `end`: an end that the leader reported in this epoch."""

    def __init__(self, leader: Leader, first: int, end: int, sizes: BatchSizes, most_bytes: int) -> None:
        self.leader = leader
        self.delivered = first
        """Where the lane continues."""
        self.held_bytes = 0
        """Bytes that are asked for, or wait to be delivered."""
        self._vain_bytes = 0
        self._sizes = sizes
        self._most_bytes = most_bytes
        self._end = end
        self._covered = self._next = first
        """The offsets behind all that is delivered, and behind all that is asked for."""
        self._ranges: deque[Range] = deque()

    @property
    def whole_bytes(self) -> int:
        """The bytes of a range that is as large as is useful."""
        return self._sizes.range_bytes(self._most_bytes) or self._most_bytes

    @property
    def is_done(self) -> bool:
        """Whether everything up to the told end is delivered."""
        return not self._ranges and self._next >= self._end

    @property
    def head(self) -> Range | None:
        """The range to be delivered next, arrived or not; None without one."""
        return self._ranges[0] if self._ranges else None

    @property
    def ready(self) -> Range | None:
        """The head, if it has arrived and nothing is missing in front of it."""
        head = self.head
        return head if head is not None and head.found is not None and head.first <= self._covered else None

    def trim(self, ready: Range) -> Slice | None:
        """Return the part of the head that the lane does not have yet; None without a batch.

        A batch across the joint came with the range before, if that one asked for enough.
        """
        found = ready.found
        if found is None or ready.follows < 0:
            return None
        start = first_behind(ready.buffer, found.start, found.end, self._covered)
        self._vain_bytes += start - found.start
        return msgspec.structs.replace(found, start=start) if start > found.start else found

    @property
    def rest(self) -> Range | None:
        """The first range to be asked for before new ones: between two answers, or put back; None without one."""
        return next((one for one in self._ranges if not one.is_asked), None)

    def take_vain(self) -> int:
        """Return the bytes that arrived in vain since the last call: twice, not whole, or dropped with the plan."""
        vain, self._vain_bytes = self._vain_bytes, 0
        return vain

    def told(self, end: int) -> None:
        """Note an end that the leader reported."""
        self._end = max(self._end, end)

    def extend(self, aim: Aim = WHOLE) -> Range | None:
        """Return a new range behind all others, which is to be asked for; None at the told end."""
        if self._next >= self._end:
            return None
        stop, max_bytes = self._sizes.cut(self._next, self._most_bytes, aim)
        new = Range(start=self._next, stop=min(max(stop, self._next + 1), self._end), max_bytes=max_bytes)
        self._next = new.stop
        self._ranges.append(new)
        return new

    def asked(self, one: Range) -> None:
        """Note that a range is on its way."""
        one.is_asked = True
        self.held_bytes += one.max_bytes

    def put_back(self, one: Range) -> None:
        """Note that a range got no answer: it is to be asked for again."""
        one.is_asked = False
        self.held_bytes -= one.max_bytes

    def too_large(self, one: Range, size: int) -> None:
        """Put back a range whose answer of `size` bytes did not fit into memory: its first batch is as large."""
        self.put_back(one)
        one.max_bytes = size
        self._sizes = msgspec.structs.replace(self._sizes, alike=0, batch_bytes=float(size))

    def arrive(self, one: Range, found: Slice, buffer: memoryview, lease: BufferShare) -> bool:
        """Take the answer to a range; return False if it is not as expected, and the plan cannot go on."""
        part = extent(buffer, found.start, found.end, one.stop)
        if part is None or not (part.batches or part.beyond >= 0):
            return False
        one.begins, one.follows = part.first_offset, part.next_offset
        one.covers = max(part.next_offset, part.beyond)
        if not one.is_rest and self._is_misjudged(one, found.end - found.start):
            return False
        one.found = msgspec.structs.replace(found, end=part.end)
        one.buffer, one.lease = buffer, lease.retain()
        self._vain_bytes += found.end - part.end
        if not one.is_rest:
            self._learn(one, part, found)
        if one is self._ranges[-1]:
            self._next = max(min(self._next, one.covers), self._ranges[0].start)
        self._find_rest()
        return True

    @staticmethod
    def _is_misjudged(one: Range, size: int) -> bool:
        """Whether a full answer has few of the offsets: records have grown, and all other ranges are as wrong."""
        return 2 * size > one.max_bytes and _MISJUDGED * (one.covers - one.start) < one.stop - one.start

    def _learn(self, one: Range, part: Extent, found: Slice) -> None:
        """Take the sizes of the newest batches; batches that were not as expected once do not count as alike again.

        Offsets without records count: a compacted log has few bytes per offset.
        """
        known, size, offsets = self._sizes, part.end - found.start, max(1, one.covers - one.start)
        sizes = BatchSizes.of(part, found.start) if part.batches else known
        if part.batches and known.alike and sizes.alike == known.alike and part.first_offset == one.start:
            self._sizes = sizes
        else:
            per_offset = (size or sizes.batch_bytes) / offsets  # without a batch: less than one for all of them
            self._sizes = msgspec.structs.replace(sizes, alike=0, bytes_per_offset=per_offset)

    def _find_rest(self) -> None:
        """Insert a range where an answer ended before the next one begins; the later ones can wait for that."""
        covered: int | None = self._covered
        for at, one in enumerate(self._ranges):
            if one.found is None:
                covered = None
                continue
            if covered is not None and covered < one.first:
                max_bytes = min(self._sizes.bytes_of(one.first - covered), self._most_bytes)
                rest = Range(start=covered, stop=one.first, max_bytes=max_bytes, is_rest=True)
                return self._ranges.insert(at, rest)
            covered = one.covers
        return None

    def deliver(self) -> None:
        """Remove the head, which the lane takes in now."""
        one = self._ranges.popleft()
        self.held_bytes -= one.max_bytes
        self.delivered = max(self.delivered, one.follows)
        self._covered = max(self._covered, one.covers)
        one.drop()
        self._find_rest()

    def drop(self) -> None:
        """Release all memory; answers that are still on their way find no place."""
        for one in self._ranges:
            self._vain_bytes += one.found.end - one.found.start if one.found is not None else 0
            one.drop()
        self._ranges.clear()
        self._next = self._end
