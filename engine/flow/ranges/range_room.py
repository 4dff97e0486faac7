"""The memory that the answer to a range is received into; a range that does not fit is given up, not received.

A broker sends the first batch whole, however few bytes were asked for (KIP-74). If batches grow suddenly, every range
on its way brings more than its memory. Without this, 64 of them would exceed the budget by dozens of MiB.
"""

from typing import Protocol

from engine.flow.ports.ports import NoRoom, Room
from engine.flow.ranges.range_plan import Range, RangePlan

_SLACK = 8
"""An answer may exceed its memory by this part (1/8): its header, and the transactions that it names."""


class RangeMemory(Protocol):
    """The budget of a copier."""

    def has_room(self, more_bytes: int, *, whole: bool) -> bool:
        """Whether so many bytes fit now; `whole`: also into the part that is left to other fetches."""


class RangeRoom:
    """The memory of one range."""

    def __init__(self, lease: Room, memory: RangeMemory, plan: RangePlan, one: Range) -> None:
        self._lease, self._memory = lease, memory
        self._plan, self._one = plan, one
        self.refused_bytes = 0
        """The size of an answer for which there was no memory."""

    def room(self, size: int) -> memoryview:
        """Return writable memory of `size` bytes. Raises NoRoom if they are many more than asked for and do not fit."""
        asked = self._one.max_bytes
        more, is_head = size - asked, self._one is self._plan.head
        if more > asked // _SLACK and not self._memory.has_room(more, whole=is_head):
            self.refused_bytes = size
            raise NoRoom(size)
        return self._lease.room(size)
