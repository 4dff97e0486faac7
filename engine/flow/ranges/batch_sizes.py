"""Says from the sizes of earlier batches how many offsets the bytes of a range hold, and how large ranges should be.

A range of unequal batches brings about half a batch or a whole one in vain: nobody knows where the batch across its end
begins. So larger ranges waste less. Smaller ones let more connections read within the same memory.
"""

import math

import msgspec

from engine.wire.extent import Extent

_LEAST_BYTES = 512 * 1024
_BATCHES = 24
"""A range has as many batches where the memory lets it: 3 % are fetched in vain."""
FEW_BATCHES = 8
"""A range has as many batches at least, as long as it may be as large: 9 % are fetched in vain."""
NARROW_BATCHES = 3
"""The same where sockets are the limit: a fifth is fetched in vain, but more connections read. A partition whose ranges
would have fewer batches is not worth it."""
_ABOUT = 1.1
"""Whole batches may have as many times the bytes that are expected."""
_MARGIN = 0.6
"""This part of a batch is asked for beyond the expected bytes of a range. With a whole batch every range would reach
the next one; with this part one in ten needs another request, for its last batch, and less is fetched in vain."""


class Aim(msgspec.Struct, frozen=True, gc=False):
    """How large ranges should be: as many bytes, but at least as many batches; never larger than is useful."""

    bytes: float
    batches: int


WHOLE = Aim(math.inf, _BATCHES)
"""As large as is useful."""


class BatchSizes(msgspec.Struct, frozen=True, kw_only=True):
    """How large the batches of a partition are, by the last answer.

    `alike`: the offsets in each of them, 0 if they differ; `joint`: an offset where a batch begins. `spread_bytes`: the
    size of the largest batch less that of the smallest one.
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
            alike=found.alike if found.batches > 1 else 0,
            spread_bytes=found.spread_bytes,
            joint=found.next_offset,
        )

    def bytes_of(self, offsets: int) -> int:
        """Return how many bytes to fetch for whole batches of so many offsets: a broker sends at least one batch."""
        return int(_ABOUT * offsets * self.bytes_per_offset) + 1

    def range_bytes(self, most_bytes: int, aim: Aim = WHOLE) -> int:
        """Return how many bytes a range should have; 0 if a range of at most `most_bytes` would waste too much."""
        if self.alike:
            return min(max(_LEAST_BYTES, int(self.batch_bytes)), most_bytes)
        if NARROW_BATCHES * self.batch_bytes > most_bytes:
            return 0
        size = min(max(aim.bytes, aim.batches * self.batch_bytes), _BATCHES * self.batch_bytes)
        return min(max(_LEAST_BYTES, int(size)), most_bytes)

    def cut(self, first: int, most_bytes: int, aim: Aim) -> tuple[int, int]:
        """Return where a range from offset `first` ends, and how many bytes to fetch for it."""
        size = self.range_bytes(most_bytes, aim) or most_bytes
        if self.alike:
            count = max(1, int(size / self.batch_bytes))
            steps = (first - self.joint) // self.alike + count
            return self.joint + steps * self.alike, int(count * self.batch_bytes) + self.spread_bytes
        return first + max(1, int(size / self.bytes_per_offset)), size + int(_MARGIN * self.batch_bytes)
