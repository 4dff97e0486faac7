"""The state machine of one lane's transactions: records become visible together with their position, or not at all.

    CLOSED     no transaction is open
      | begin  records or a position are to be written
    BEGINNING  the driver adds the partitions to the transaction at the coordinator
      |
    OPEN       the lane appends, until time is up or it has caught up
      | seal   no new batches
    SEALING    batches in flight get their outcome; batches of unknown outcome are sent again
      |
    WRITING    the position, and nothing else
      |
    ENDING     the driver asks the coordinator to commit, and asks again if the answer was lost
      |
    CLOSED     records and position are durable and visible

The lane never aborts a transaction. Its next owner takes the producer id at a higher epoch, and the coordinator then
rolls back an open transaction; it also does so by itself if a transaction stays open too long. So a lane that cannot
append holds back only the readers of its own partition.
"""

import enum
from collections.abc import Callable

from engine.core.lane.lane import Lane
from engine.core.lane.states import State
from engine.core.offset_map.map_runs import MapHead
from engine.core.streams.position_stream import PositionStream, PositionWrite

OWNED = frozenset({State.COPYING, State.TROUBLED, State.WAITING, State.SETTLING, State.REFUSED})
"""States of a lane that has an owner."""
_CALM = 10
"""The most commits in one interval of a lane that has caught up; such a lane commits at once."""
_LONG_AGO_S = -1e9


class TransactionStage(enum.Enum):
    """The stage of a transaction."""

    CLOSED = "closed"
    BEGINNING = "beginning"
    OPEN = "open"
    SEALING = "sealing"
    WRITING = "writing"
    ENDING = "ending"


class TransactionStep(enum.Enum):
    """The next step for the driver."""

    BEGIN = "begin"
    """Add the partitions to a transaction, then call `begun`."""
    WRITE = "write"
    """Write the position."""
    COMMIT = "commit"
    """End the transaction, then call `committed`."""


class CommittedPositions(PositionStream):
    """The positions of a lane that copies in transactions, and the state of the transaction that each position ends.

    `every_s`: how long a transaction of a busy lane stays open, in seconds.
    """

    transactional = True

    def __init__(self, lane: Lane, key: bytes, wall_ms: Callable[[], int], every_s: float) -> None:
        super().__init__(lane, key, wall_ms)
        self.stage = TransactionStage.CLOSED
        self.with_records = False
        """Whether the target partition takes part in the transaction."""
        self.whole = False
        """Whether the next transaction must include every partition that the lane's fence covers."""
        self._every_s = every_s
        self._began_s = self._ended_s = _LONG_AGO_S
        self._written: PositionWrite | None = None
        self._committed: PositionWrite | None = None

    def begin(self) -> None:
        """Start again under a new producer epoch: an open transaction is rolled back by then."""
        super().begin()
        self.stage, self.with_records, self.whole = TransactionStage.CLOSED, False, False
        self._written = self._committed = None

    # --- permitted writes ------------------------------------------------------------------------------------

    @property
    def takes_records(self) -> bool:
        """Whether the lane may append: in OPEN any batch, in SEALING only batches of unknown outcome."""
        if self.stage is TransactionStage.SEALING:
            return self.with_records and self._must_resend
        return self.stage is TransactionStage.OPEN and self.with_records

    @property
    def between_steps(self) -> bool:
        """Whether the lane waits for no answer of the coordinator or of the leader of the positions partition."""
        return self.stage in (TransactionStage.CLOSED, TransactionStage.OPEN)

    @property
    def due(self) -> bool:
        """Whether the position is to be written now."""
        return self.stage is TransactionStage.WRITING and self._written is None

    @property
    def settled(self) -> bool:
        """Whether the newest position is committed."""
        return self.stage is TransactionStage.CLOSED and super().settled

    @property
    def told_version(self) -> int:
        """The version of the committed position: raymirror publishes nothing that may be rolled back."""
        return -1 if self._committed is None else self._committed.position_version

    def told_head(self) -> MapHead | None:
        """Return the end of the map in the committed position."""
        return None if self._committed is None else self._committed.head

    @property
    def _must_resend(self) -> bool:
        """Whether a batch of unknown outcome must be sent again."""
        lane = self._lane
        return lane.state is State.COPYING and bool(lane.pieces.waiting) and lane.pieces.waiting[0].pinned

    @property
    def _dry(self) -> bool:
        """Whether the outcome of every sent batch is known."""
        lane = self._lane
        if lane.in_flight:
            return False
        return lane.state is State.REFUSED or (lane.state is State.COPYING and not self._must_resend)

    # --- the next step ---------------------------------------------------------------------------------------

    def step(self, now_s: float, *, caught_up: bool) -> TransactionStep | None:
        """Advance as far as possible; return the step that the driver must take next, each step once.

        `caught_up`: the lane has copied all known source records.
        """
        if self._lane.state not in OWNED:
            return None
        if self.stage is TransactionStage.CLOSED and self._wanted:
            self.stage = TransactionStage.BEGINNING
            self.with_records = self.whole or self._has_records
            return TransactionStep.BEGIN
        if self.stage is TransactionStage.OPEN and self._is_over(now_s, caught_up):
            self.stage = TransactionStage.SEALING
        if self.stage is TransactionStage.SEALING and self._dry:
            self.stage = TransactionStage.WRITING
            return TransactionStep.WRITE
        if self.stage is TransactionStage.WRITING and self._written is not None:
            self.stage = TransactionStage.ENDING
            return TransactionStep.COMMIT
        return None

    @property
    def _has_records(self) -> bool:
        return self._lane.state is State.COPYING and bool(self._lane.pieces.waiting)

    @property
    def _wanted(self) -> bool:
        return self._has_records or self.whole or super().due

    def _is_over(self, now_s: float, caught_up: bool) -> bool:
        lane = self._lane
        if not self.with_records or lane.state is State.REFUSED or now_s - self._began_s >= self._every_s:
            return True
        if not lane.idle:
            return False
        calm = now_s - self._ended_s >= self._every_s / _CALM
        return lane.draining or self.whole or (calm and (caught_up or lane.paused))

    def begun(self, now_s: float) -> None:
        """Note that the partitions are in the transaction: appends may start, and `every_s` counts from here."""
        self.stage, self._began_s = TransactionStage.OPEN, now_s

    def committed(self, now_s: float) -> None:
        """Note that the coordinator has decided to commit: records and position are durable from now on."""
        write = self._written
        assert write is not None, "no position was written"
        self._committed, self._written = write, None
        self.stage, self._ended_s = TransactionStage.CLOSED, now_s
        if self.with_records:
            self._lane.markers += 1
        self.whole = False
        super()._durable(write)

    def refresh(self) -> None:
        """Start the next transaction soon and include every partition, so that neither id nor fence expires."""
        self.whole = True

    def _durable(self, write: PositionWrite) -> None:
        self._written = write
