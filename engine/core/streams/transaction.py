"""The transactions of one lane: records become visible together with the position that says so, or not at all.

    CLOSED     nothing is open
      | begin  something is to be written
    BEGINNING  the coordinator is told which partitions take part
      |
    OPEN       records go; time passes, or there are no more of them
      | seal   no new ones
    SEALING    what is in flight has its outcome, what has none goes again
      |
    WRITING    the position, and nothing else
      |
    ENDING     the coordinator is told to commit; told again where its answer was lost
      |
    CLOSED     what was written is durable and visible

A transaction is never aborted from here: whoever owns the lane next takes its producer id at a higher epoch, and the
coordinator rolls back whatever was open; so it does by itself with one that stays open too long. A lane that cannot
append therefore holds back nobody's readers but those of its own partition.
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
"""A lane that has copied everything commits at once, but no more than so often in one interval."""
_LONG_AGO_S = -1e9


class TransactionStage(enum.Enum):
    """Where a transaction stands."""

    CLOSED = "closed"
    BEGINNING = "beginning"
    OPEN = "open"
    SEALING = "sealing"
    WRITING = "writing"
    ENDING = "ending"


class TransactionStep(enum.Enum):
    """What a driver is to do next."""

    BEGIN = "begin"
    """Add the partitions to a transaction, then call `begun`."""
    WRITE = "write"
    """The position may go."""
    COMMIT = "commit"
    """End the transaction, then call `committed`."""


class CommittedPositions(PositionStream):
    """The positions of a lane that copies in transactions, and the state of the transaction they end.

    `every_s`: how long a transaction of a busy lane stays open.
    """

    transactional = True

    def __init__(self, lane: Lane, key: bytes, wall_ms: Callable[[], int], every_s: float) -> None:
        super().__init__(lane, key, wall_ms)
        self.stage = TransactionStage.CLOSED
        self.with_records = False
        """Whether the target partition takes part in the transaction."""
        self.whole = False
        """Whether the next transaction is to reach every partition that the lane's fence covers."""
        self._every_s = every_s
        self._began_s = self._ended_s = _LONG_AGO_S
        self._written: PositionWrite | None = None
        self._committed: PositionWrite | None = None

    def begin(self) -> None:
        """Start anew under a new producer epoch: what was open is rolled back by then."""
        super().begin()
        self.stage, self.with_records, self.whole = TransactionStage.CLOSED, False, False
        self._written = self._committed = None

    # --- what may be written ---------------------------------------------------------------------------------

    @property
    def takes_records(self) -> bool:
        """Whether the lane may append: while it is open, and behind that only what may be there already."""
        if self.stage is TransactionStage.SEALING:
            return self.with_records and self._must_resend
        return self.stage is TransactionStage.OPEN and self.with_records

    @property
    def between_steps(self) -> bool:
        """Whether nobody has to answer before records may go: no coordinator, no leader of the position."""
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
        """The version of the committed position: others are told of nothing that may be rolled back."""
        return -1 if self._committed is None else self._committed.position_version

    def told_head(self) -> MapHead | None:
        """Return the end of the map in the committed position."""
        return None if self._committed is None else self._committed.head

    @property
    def _must_resend(self) -> bool:
        """Whether a batch that was sent may be there or not."""
        lane = self._lane
        return lane.state is State.COPYING and bool(lane.pieces.waiting) and lane.pieces.waiting[0].pinned

    @property
    def _dry(self) -> bool:
        """Whether every record that was sent is known to be there, or known not to be."""
        lane = self._lane
        if lane.in_flight:
            return False
        return lane.state is State.REFUSED or (lane.state is State.COPYING and not self._must_resend)

    # --- what comes next -------------------------------------------------------------------------------------

    def step(self, now_s: float, *, caught_up: bool) -> TransactionStep | None:
        """Go on as far as it goes by itself; return what the driver is to do for the rest, once each.

        `caught_up`: the lane has copied all that the source is known to hold.
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
        """The partitions take part: what waits may go. The time counts from here, however long the coordinator took."""
        self.stage, self._began_s = TransactionStage.OPEN, now_s

    def committed(self, now_s: float) -> None:
        """The coordinator has decided: whatever happens now, what was written is there."""
        write = self._written
        assert write is not None, "no position was written"
        self._committed, self._written = write, None
        self.stage, self._ended_s = TransactionStage.CLOSED, now_s
        if self.with_records:
            self._lane.markers += 1
        self.whole = False
        super()._durable(write)

    def refresh(self) -> None:
        """Let the next transaction come soon and reach every partition, so that neither id nor fence expires."""
        self.whole = True

    def _durable(self, write: PositionWrite) -> None:
        self._written = write
