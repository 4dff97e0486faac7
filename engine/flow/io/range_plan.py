"""Plans in which ranges of offsets a lane is read over several connections at once.

    source log   |== in the lane ==|- range -|- range -|- range -|- range -|.. not asked ..| told end
                             delivered     asked    arrived    asked

Ranges follow each other and are delivered in order. The sizes of earlier batches say where a range ends and the next
one begins. An answer that ends too early leaves a rest, which is asked for at once. An answer that reaches too far is
cut. No range reaches beyond an end that the leader reported, because it would be out of range there.

All ranges of a plan come from one leader in one leader epoch, which every request names: a leader has one history in
its epoch, so what two answers hold belongs together, whatever happens between them. The plan ends with the epoch.
"""

from collections import deque

import msgspec

from engine.flow.io.buffers import BufferLease
from engine.flow.ports.ports import Leader, Slice
from engine.wire.extent import Extent, extent

_ALIKE_BYTES = 512 * 1024
"""A range of batches that are all alike: it ends exactly between two of them."""
_LEAST_BATCHES = 40
"""A range of other batches has as many, so that those at its joints, which are fetched twice, are 1 in 20 at most."""
_JUDGED_BYTES = 32 * 1024 * 1024
_MOST_WASTE = 20


class BatchSizes(msgspec.Struct, frozen=True, kw_only=True):
    """How large the batches of a partition are, by the last answer; `alike`, `spread_bytes`: see `Extent`.

    `joint`: an offset where a batch begins.
    """

    batch_bytes: float
    bytes_per_offset: float
    alike: int
    spread_bytes: int
    joint: int

    @classmethod
    def of(cls, found: Extent, start: int) -> "BatchSizes":
        """Read the sizes off the batches of an answer whose bytes begin at index `start`."""
        size = found.end - start
        return cls(
            batch_bytes=size / found.batches,
            bytes_per_offset=size / (found.next_offset - found.first_offset),
            alike=found.alike,
            spread_bytes=found.spread_bytes,
            joint=found.next_offset,
        )

    def bytes_of(self, offsets: int) -> int:
        """Return how many bytes to fetch for the rest of a range."""
        return int(offsets * self.bytes_per_offset + self.batch_bytes) + self.spread_bytes

    def range_bytes(self, most_bytes: int) -> int:
        """Return how many bytes a range should have."""
        wanted = self.batch_bytes if self.alike else _LEAST_BATCHES * self.batch_bytes
        return min(max(_ALIKE_BYTES, int(wanted)), most_bytes)

    def cut(self, first: int, most_bytes: int) -> tuple[int, int]:
        """Return where a range from offset `first` ends, and how many bytes to fetch for it."""
        size = self.range_bytes(most_bytes)
        if self.alike:
            count = max(1, int(size / self.batch_bytes))
            steps = (first - self.joint) // self.alike + count
            return self.joint + steps * self.alike, int(count * self.batch_bytes) + self.spread_bytes
        return first + max(1, int(size / self.bytes_per_offset)), size + int(self.batch_bytes)


class Range(msgspec.Struct, eq=False, kw_only=True):
    """The offsets from `start` up to `stop`, not included; once it has arrived, with its slice of an answer."""

    start: int
    stop: int
    max_bytes: int
    is_asked: bool = False
    reaches: int = -1
    """The offset behind the last batch that arrived; -1: none is there."""
    found: Slice | None = None
    buffer: memoryview = memoryview(b"")
    lease: BufferLease | None = None

    def drop(self) -> None:
        """Release the memory of the answer."""
        if self.lease is not None:
            self.lease.release()
            self.lease = None


class RangePlan:
    """The ranges of one lane, in order, from `first` on; `end`: an end that the leader reported in this epoch."""

    def __init__(self, leader: Leader, first: int, end: int, sizes: BatchSizes, most_bytes: int) -> None:
        self.leader = leader
        self.sizes = sizes
        self._most_bytes = most_bytes
        self.delivered = first
        """Everything below is in the lane."""
        self.held_bytes = 0
        """Bytes that are asked for, or wait to be delivered."""
        self.received_bytes = self.discarded_bytes = 0
        self._end = end
        self._next = first
        self._ranges: deque[Range] = deque()

    @property
    def is_done(self) -> bool:
        """Whether everything up to the told end is delivered."""
        return not self._ranges and self._next >= self._end

    @property
    def head(self) -> Range | None:
        """The range to be delivered next; None without one."""
        return self._ranges[0] if self._ranges else None

    def told(self, end: int) -> None:
        """Note an end that the leader reported."""
        self._end = max(self._end, end)

    @property
    def rest(self) -> Range | None:
        """The first range that is to be asked for, the rest of one whose answer ended too early; None without one."""
        return next((one for one in self._ranges if not one.is_asked), None)

    def extend(self) -> Range | None:
        """Return a new range behind all others, which is to be asked for; None at the told end."""
        if self._next >= self._end:
            return None
        stop, max_bytes = self.sizes.cut(self._next, self._most_bytes)
        new = Range(start=self._next, stop=min(max(stop, self._next + 1), self._end), max_bytes=max_bytes)
        self._next = new.stop
        self._ranges.append(new)
        return new

    def asked(self, one: Range) -> None:
        """Note that a range is on its way."""
        one.is_asked = True
        self.held_bytes += one.max_bytes

    def arrive(self, one: Range, found: Slice, buffer: memoryview, lease: BufferLease) -> bool:
        """Take the answer to a range; return False if it is not as expected, and the plan cannot go on.

        The slice is cut to the range. If it ends too early, the rest becomes a range of its own.
        """
        part = extent(buffer, found.start, found.end, one.stop)
        if part is None or not (part.batches or part.is_cut):
            return False
        if part.batches:
            self._count(found, part, is_twice=part.first_offset < one.start)
            self.sizes = BatchSizes.of(part, found.start)
        if not part.is_cut and part.next_offset < one.stop:
            self._split(one, part.next_offset)
        one.found, one.reaches = msgspec.structs.replace(found, end=part.end), part.next_offset
        one.buffer, one.lease = buffer, lease.retain()
        return True

    def _split(self, one: Range, at: int) -> None:
        rest = Range(start=at, stop=one.stop, max_bytes=self.sizes.bytes_of(one.stop - at))
        one.stop = at
        self._ranges.insert(self._ranges.index(one) + 1, rest)

    def _count(self, found: Slice, part: Extent, *, is_twice: bool) -> None:
        self.received_bytes += found.end - found.start
        self.discarded_bytes += found.end - part.end
        if is_twice:
            self.discarded_bytes += (part.end - found.start) // part.batches

    @property
    def is_wasteful(self) -> bool:
        """Whether more than 1 byte of 20 was fetched in vain, over enough bytes to say so."""
        return self.received_bytes > _JUDGED_BYTES and self.discarded_bytes * _MOST_WASTE > self.received_bytes

    def deliver(self) -> None:
        """Remove the head, which the lane takes in now."""
        one = self._ranges.popleft()
        self.held_bytes -= one.max_bytes
        self.delivered = max(self.delivered, one.reaches)
        one.drop()

    def drop(self) -> None:
        """Release all memory; answers that are still on their way find no place."""
        for one in self._ranges:
            one.drop()
        self._ranges.clear()
        self._next = self._end
