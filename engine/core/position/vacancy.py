"""Decides whether a lane can be taken without a barrier: only if no request of a previous owner can still arrive.

A barrier is an empty aborted transaction. Its markers carry the new producer epoch to the leaders, and each marker
takes an offset in the copy. It is needed only if a request of a previous owner may still be in flight. There is no such
request in two cases:

- **no previous owner**: the lane has no position, its target partition is empty from offset 0, and the coordinator
  assigns the first epoch of a new producer id. An owner's position is durable before its first append, so every owner
  that could have an append in flight has a position;
- **the last owner left**: its last position says so, and the coordinator assigns the next epoch of the same producer
  id. Every InitProducerId raises the epoch, so no other owner was between the two; and an owner that has left sends
  nothing more. `RequestTrail` decides whether an owner may write that it has left.

Every condition of a case must hold. In all other cases the lane gets a barrier: with any other epoch or producer id (a
second owner that died early, a lost answer to InitProducerId, an id that the coordinator had forgotten, an exhausted
epoch), and with logs that are not exactly as the last owner left them.
"""

from engine.core.position.position import Position
from engine.core.position.resume import ResumePoint


class RequestTrail:
    """Tracks one owner's requests: whether its last position may say that none is in flight.

    Strict on purpose: after one request without an answer, or without success, the next owner needs a barrier.
    """

    def __init__(self) -> None:
        self.left = False
        """Whether the lane has handed out its final position, with `left`; it hands out nothing after it."""
        self.writes = 0
        """The number of writes other than data that have no answer yet."""
        self._answered = self._alone = False

    def begin(self, *, fenced: bool, alone: bool) -> None:
        """Start a new epoch. `fenced`: the coordinator guards it; `alone`: no request of a previous owner is left."""
        self.left, self.writes = False, 0
        self._answered, self._alone = fenced, alone

    def failed(self) -> None:
        """Note a request that failed or got no answer: a copy of it may still be in flight."""
        self._answered = False

    def appended(self, *, is_old: bool) -> None:
        """Note an appended batch. After old records the leader may forget the epoch and accept a previous owner."""
        self._answered = self._answered and (self._alone or not is_old)

    @property
    def may_end(self) -> bool:
        """Whether a position may say that the owner has left, once no write is in flight."""
        return self._answered and not self.left


def is_vacant(stored: Position | None, producer_id: int, epoch: int, target_end: int) -> bool:
    """Whether the lane had no owner before this epoch, or its last owner has left.

    `stored`: the lane's position, read at any time before or after the coordinator assigned the epoch.
    """
    if stored is None:
        return epoch == 0 and target_end == 0
    return may_be_vacant(stored, target_end) and (stored.producer_id, stored.producer_epoch + 1) == (producer_id, epoch)


def may_be_vacant(stored: Position | None, target_end: int) -> bool:
    """Whether acquiring without a barrier is worth a try."""
    if stored is None:
        return target_end == 0
    return stored.left and not stored.atomic and target_end >= stored.target_next


def stands_as_left(stored: Position | None, found: ResumePoint, target_end: int) -> bool:
    """Whether the logs hold exactly what the position says, without records of other writers."""
    plain = not found.tail_records and not found.foreign and found.twice is None and found.cut < 0
    if stored is None:
        return plain and target_end == 0
    return plain and found.how == "position" and found.source_next == stored.source_next
