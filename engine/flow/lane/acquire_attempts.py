"""Counts the attempts of one lane to get an owner, and decides when it tries again and when it gives up."""

from math import inf

import msgspec

from engine.base.clock import backoff_s
from engine.core.position.position import Position

MOST_WITHOUT_A_RECORD = 5
"""Acquisitions in a row without one acknowledged record before a lane gives up."""
MOST_FENCED = 20
"""Acquisitions in a row that another owner soon ended, even if records were copied between them: about a minute."""
_STEADY_S = 30.0
"""After this many seconds with an owner a lane is stable: the count of its acquisitions starts again."""
_LONGEST_WAIT_S = 5.0


class Divergence(msgspec.Struct, frozen=True):
    """The source offset where the source's history diverges from the copied records, and what the fetch reported."""

    offset: int
    cause: str


class StoredPlace(msgspec.Struct, frozen=True):
    """A lane's position, read before the lane had an owner. `left`: the position, if the last owner left cleanly."""

    left: Position | None


class AcquireAttempts:
    """A lane's attempts since it came to this copier. Instants are seconds of `engine.base.clock.now_s`."""

    def __init__(self, now_s: float) -> None:
        self.given_at_s = now_s
        """The instant since which no previous owner has a lease for the lane."""
        self.join_at_s = 0.0
        """When the next attempt may begin."""
        self.under_way = False
        self._woken_at_s = -inf
        """When the lane had no owner, and something to copy; -inf: it was not woken."""
        self.reacquired = 0
        """Acquisitions since the last acknowledged record."""
        self.in_a_row = self.fenced_in_a_row = 0
        """Acquisitions in a row that were lost within `_STEADY_S`."""
        self.stored: StoredPlace | None = None
        """The position, read before the lane had an owner; None if it was not read."""
        self.divergence: Divergence | None = None
        """Where the source's history diverges, for the next acquisition to judge."""

    def is_due(self, now_s: float) -> bool:
        """Whether an attempt may begin."""
        return not self.under_way and self.join_at_s <= now_s

    def start(self) -> None:
        """Begin an attempt."""
        self.under_way = True

    def end(self) -> None:
        """End the attempt, however it went."""
        self.under_way = False

    def wake(self, now_s: float) -> None:
        """Note that the lane has something to copy."""
        self._woken_at_s = now_s

    @property
    def woken(self) -> bool:
        """Whether the lane has no owner and something to copy."""
        return self._woken_at_s > -inf

    @property
    def needed_at_s(self) -> float:
        """When the lane last began to need an owner."""
        return max(self.given_at_s, self._woken_at_s)

    def read(self, position: Position) -> None:
        """Note the position that was read before the lane had an owner."""
        self.stored = StoredPlace(position if position.left else None)

    def diverged(self, divergence: Divergence | None) -> None:
        """Note where the source's history diverges; None: nowhere."""
        self.divergence = divergence

    def acknowledged(self) -> None:
        """Note an acknowledged record: the acquisitions before it no longer count."""
        self.reacquired = 0

    def rest(self, owned_at_s: float, now_s: float) -> None:
        """Count again from 0 if the lane had its owner for `_STEADY_S`."""
        if now_s - owned_at_s >= _STEADY_S:
            self.in_a_row = self.fenced_in_a_row = 0

    def lose(self, now_s: float, *, fenced: bool, settles: bool) -> bool:
        """Count a lost acquisition and set when the next may begin; return whether the lane should give up.

        `fenced`: another owner may have the lane now. `settles`: the lane is acquired only to learn what the log holds.
        That happens as often as leaders move, so it does not count as an acquisition without a record.
        """
        self.reacquired += not settles
        self.in_a_row += 1
        self.fenced_in_a_row += fenced
        if fenced:
            self.given_at_s = now_s
        again = self.in_a_row - 1
        self.join_at_s = now_s + (backoff_s(again, most_s=_LONGEST_WAIT_S) if again else 0.0)
        return self.reacquired > MOST_WITHOUT_A_RECORD or self.fenced_in_a_row > MOST_FENCED

    def begin_again(self, now_s: float) -> None:
        """Forget all earlier attempts, because a command or an assignment asks for a new one."""
        self.given_at_s, self.join_at_s = now_s, 0.0
        self.reacquired = self.in_a_row = self.fenced_in_a_row = 0
