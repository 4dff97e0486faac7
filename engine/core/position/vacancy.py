"""Decides whether a lane can be taken without a barrier: only if no request of a former owner can still arrive.

A barrier is an empty aborted transaction. Its markers carry the new producer epoch to the leaders, and each marker
takes an offset in the copy. It is needed only if a request of a former owner may still be on its way. There is none

- **where nobody was before**: the lane has no position, its target partition is empty to the first offset, and the
  coordinator gives out the first epoch of a new producer id. An owner's position is durable before its first append,
  so whoever could have an append on its way has a position;
- **where the last owner left**: its last position says so, and the coordinator gives out the very next epoch of the
  same producer id. Every InitProducerId raises the epoch, so nobody was between the two; and an owner that has left
  sends nothing more. `RequestTrail` decides whether an owner may say that it has left.

Every condition of a case must hold. In all other cases the lane gets a barrier: with any other epoch or producer id (a
second owner that died early, an InitProducerId whose answer was lost, an id that the coordinator had forgotten, an
exhausted epoch), and with logs that are not exactly as they were left.
"""

from engine.core.position.position import Position
from engine.core.position.resume import ResumePoint


class RequestTrail:
    """The fate of one owner's requests: whether its last position may say that none is on its way.

    Strict on purpose: after one request without an answer, or without success, the next owner needs a barrier.
    """

    def __init__(self) -> None:
        self.left = False
        """Whether a position that says that the owner has left was handed out: nothing is handed out after it."""
        self.writes = 0
        """Writes beside the data that have no answer yet."""
        self._answered = self._alone = False

    def begin(self, *, fenced: bool, alone: bool) -> None:
        """Start a new epoch. `fenced`: the coordinator guards it; `alone`: no request of a former owner is left."""
        self.left, self.writes = False, 0
        self._answered, self._alone = fenced, alone

    def failed(self) -> None:
        """Note a request that failed or got no answer: a copy of it may still be on its way anywhere."""
        self._answered = False

    def appended(self, *, is_old: bool) -> None:
        """Note an appended batch. After old records the leader may forget the epoch and then refuse no former owner."""
        self._answered = self._answered and (self._alone or not is_old)

    @property
    def may_end(self) -> bool:
        """Whether a position may say that the owner has left, once no write is on its way."""
        return self._answered and not self.left


def is_vacant(stored: Position | None, producer_id: int, epoch: int, target_end: int) -> bool:
    """Whether nobody had the lane before this epoch, or its last owner has left.

    `stored`: the lane's position, read at any time before or after the coordinator gave out the epoch.
    """
    if stored is None:
        return epoch == 0 and target_end == 0
    return may_be_vacant(stored, target_end) and (stored.producer_id, stored.producer_epoch + 1) == (producer_id, epoch)


def may_be_vacant(stored: Position | None, target_end: int) -> bool:
    """Whether an epoch without a barrier is worth a try."""
    if stored is None:
        return target_end == 0
    return stored.left and not stored.atomic and target_end >= stored.target_next


def stands_as_left(stored: Position | None, found: ResumePoint, target_end: int) -> bool:
    """Whether the logs hold exactly what the position says: nothing more, nothing less, no records of others."""
    plain = not found.tail_records and not found.foreign and found.twice is None and found.cut < 0
    if stored is None:
        return plain and target_end == 0
    return plain and found.how == "position" and found.source_next == stored.source_next
