"""Stores offset syncs as MM2's checkpoint task does: 64 slots per partition, and a translation that is never ahead.

    slot      0        1       2      3        ...       63
    sync   newest   a little older   ...  ever farther apart   the oldest that still counts

This follows Kafka's OffsetSyncStore. It has two uses: to translate with syncs that MM2 wrote before raymirror, as an
approximation if no offset map exists, and to know how MM2's readers translate with raymirror's syncs. A committed
offset translates to the target offset of the newest kept sync at or below it, or to one more if the sync lies below it.
So a consumer may read records again but never skips one, as long as the syncs are true.
"""

from collections.abc import Sequence
from typing import Final

from engine.core.mm2.mm2_records import OffsetSync
from policies.model import TopicPartition

SLOTS: Final = 64
TOO_OLD: Final = -1
"""The answer for a committed offset below every kept sync."""

Slot = tuple[int, int]
"""(source offset, target offset). Two slots are equal only if they are the same object, as in Java."""


class SyncStore:
    """The offset syncs of many partitions.

    `must_read_to_end`: only the last sync of the first read of the topic counts, as in an MM2 that could not read its
    own checkpoints at start. `translate` returns None before `read_to_end`.
    """

    def __init__(self, *, must_read_to_end: bool = False) -> None:
        self._must_read_to_end = must_read_to_end
        self._at_end = False
        self._slots: dict[TopicPartition, list[Slot]] = {}

    def read_to_end(self) -> None:
        """Note that the first read of the topic has reached its end."""
        self._at_end = True

    def add(self, sync: OffsetSync) -> None:
        """Take the next sync of the topic."""
        lane, new = TopicPartition(sync.topic, sync.partition), (sync.source_offset, sync.target_offset)
        slots = self._slots.get(lane)
        forgets = self._must_read_to_end and not self._at_end
        if slots is None or forgets or new[0] < slots[0][0]:  # the source went back: no older sync is true
            self._slots[lane] = [new] * SLOTS
        else:
            _insert(slots, new)

    def translate(self, lane: TopicPartition, source_offset: int) -> int | None:
        """Return the target offset for a committed offset, TOO_OLD below all syncs, None if nothing is known."""
        slots = self._slots.get(lane)
        if slots is None or not self._at_end:
            return None
        for source, target in slots:
            if source <= source_offset:
                return target if source == source_offset else target + 1
        return TOO_OLD

    def kept(self, lane: TopicPartition) -> list[Slot]:
        """Return the distinct kept syncs of a partition, newest first."""
        slots = self._slots.get(lane, [])
        return [slot for at, slot in enumerate(slots) if at == 0 or slot is not slots[at - 1]]


def _insert(slots: list[Slot], new: Slot) -> None:
    """Put a sync into slot 0 and repair the other slots, as few as possible."""
    old = slots.copy()
    slots[0] = candidate = new
    at = 0
    for current in range(1, SLOTS):
        at, candidate = _replacement(slots, old, current, at, candidate)
        if _recent(slots[current - 1], slots[current], current - 1, current):
            return
        slots[current] = candidate


def _replacement(slots: list[Slot], old: Sequence[Slot], current: int, at: int, candidate: Slot) -> tuple[int, Slot]:
    """Find an older sync for slot `current`; return the next index to search, and the best sync so far."""
    before, last = slots[current - 1], current == SLOTS - 1
    while True:
        found = old[at]
        apart = _apart(before, found, current - 1)
        if apart and _recent(before, found, current - 1, current):
            good = last or _apart(found, slots[current + 1], current)
        else:
            good = False
        if good:
            candidate = found
        skip = not apart or (at + 1 < SLOTS and old[at + 1] is found)
        if good or skip:
            at += 1
        if not skip or at >= current:
            return at, candidate


def _recent(one: Slot, other: Slot, i: int, j: int) -> bool:
    """Whether the sync in slot `i` is not too far above that in slot `j` (invariant B, in Java's 64 bits)."""
    bound = _java(other[0] + _java(1 << j) - (1 << i))
    return one is other or bound < 0 or one[0] <= bound


def _apart(one: Slot, other: Slot, i: int) -> bool:
    """Whether the sync in slot `i` is far enough above another sync (invariant C, in Java's 64 bits)."""
    bound = _java(other[0] + (1 << max(i - 2, 0)))
    return one is other or 0 <= bound <= one[0]


def _java(number: int) -> int:
    """Wrap a number to a signed 64-bit integer."""
    return (number + 2**63) % 2**64 - 2**63
