"""The batches of one lane in their order: those in flight, then those that wait."""

from collections import deque
from collections.abc import Sequence

from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.core.lane.pending_batch import PendingBatch


class BatchQueue:
    """Two queues and their bytes; whatever leaves them without being settled gives its receive buffer back."""

    def __init__(self) -> None:
        self.in_flight: deque[PendingBatch] = deque()
        self.waiting: deque[PendingBatch] = deque()
        self.queued_bytes = 0

    @property
    def last(self) -> PendingBatch | None:
        """The piece that the next one follows."""
        if self.waiting:
            return self.waiting[-1]
        return self.in_flight[-1] if self.in_flight else None

    @property
    def head_ms(self) -> int:
        """Timestamp of the oldest record; -1 without one."""
        first = self.in_flight or self.waiting
        return first[0].first_timestamp if first else -1

    @property
    def tail_ms(self) -> int:
        """Newest timestamp in the batch that came last and waits; -1 without one."""
        return self.waiting[-1].max_timestamp if self.waiting else -1

    def add(self, piece: PendingBatch) -> None:
        """Let a piece wait behind all others."""
        self.waiting.append(piece)
        self.queued_bytes += len(piece.payload)

    @property
    def has_unsent(self) -> bool:
        """Whether something waits that was never sent, and can be dropped and fetched again."""
        return bool(self.waiting) and not self.waiting[-1].pinned

    def send_first(self) -> PendingBatch:
        """Move the first waiting piece in flight: from now on its sequences belong to its records."""
        piece = self.waiting.popleft()
        piece.pinned = True
        self.in_flight.append(piece)
        return piece

    def settled(self, piece: PendingBatch) -> None:
        """A piece was taken out because it is copied."""
        self.queued_bytes -= len(piece.payload)
        piece.drop()

    def sought(self) -> None:
        """The log was read, and does not hold what waits; a request that still lies at a broker may arrive later."""
        for piece in self.waiting:
            piece.sought = True

    def older_than(self, before_ms: int) -> bool:
        """Whether some batch that was sent and waits again has no timestamp as young as `before_ms`."""
        return any(piece.max_timestamp < before_ms for piece in self.waiting if piece.pinned)

    def may_double(self, forgets_before_ms: int) -> bool:
        """Whether the log may hold what would be sent next, and the leader may have forgotten its producer.

        To be asked whenever a batch goes out again, however long after its outcome: while its leader was away its
        records have grown old. A broker looks at the last batch of a producer, so any old one behind counts too.
        """
        if not self.waiting or not self.waiting[0].pinned:
            return False  # the way of nearly every batch
        return self.older_than(forgets_before_ms) and any(piece.unknown for piece in self.waiting)

    def split_first(self, parts: Sequence[PendingBatch]) -> None:
        """Put smaller pieces in the place of the first waiting one."""
        whole = self.waiting.popleft()
        self.waiting.extendleft(reversed(parts))
        self.queued_bytes += sum(len(piece.payload) for piece in parts) - len(whole.payload)
        whole.drop()

    def drop_unsent(self) -> None:
        """Forget what was never sent."""
        while self.has_unsent:
            self.settled(self.waiting.pop())

    def shed(self, outcomes: Sequence[Outcome]) -> bool:
        """Keep what was sent, as bytes of our own, to be sent again first; drop the rest.

        `outcomes`: of the batches in flight; which of them the log may hold is remembered. Returns whether an earlier
        try of the first one may be in the log, which was not read since.
        """
        unsure = self.in_flight[0].unknown and not self.in_flight[0].sought
        for piece, outcome in zip(self.in_flight, outcomes, strict=True):
            if outcome.kind is OutcomeKind.UNKNOWN:
                piece.unknown, piece.sought = True, False
        self.drop_unsent()
        self.waiting.extendleft(reversed(self.in_flight))
        self.in_flight.clear()
        for piece in self.waiting:
            piece.detach()
        return unsure

    def drop_all(self) -> None:
        """Forget everything."""
        for piece in (*self.in_flight, *self.waiting):
            piece.drop()
        self.in_flight.clear()
        self.waiting.clear()
        self.queued_bytes = 0
