"""The batches of one lane in order: first the batches in flight, then the waiting batches."""

from collections import deque
from collections.abc import Sequence

from engine.core.lane.outcome import DEFINITE, Outcome
from engine.core.lane.pending_batch import REMEMBERED, PendingBatch


class BatchQueue:
    """Two queues and their total bytes; a batch that leaves them also releases its receive buffer."""

    def __init__(self) -> None:
        self.in_flight: deque[PendingBatch] = deque()
        self.waiting: deque[PendingBatch] = deque()
        self.queued_bytes = 0
        self.in_flight_bytes = 0

    @property
    def last(self) -> PendingBatch | None:
        """The newest piece; None without one."""
        if self.waiting:
            return self.waiting[-1]
        return self.in_flight[-1] if self.in_flight else None

    @property
    def head_ms(self) -> int:
        """Timestamp of the oldest record in ms; -1 without one."""
        first = self.in_flight or self.waiting
        return first[0].first_timestamp if first else -1

    @property
    def tail_ms(self) -> int:
        """Newest timestamp in ms of the newest waiting batch; -1 without one."""
        return self.waiting[-1].max_timestamp if self.waiting else -1

    @property
    def unsent_bytes(self) -> int:
        """Bytes that wait to be sent."""
        return self.queued_bytes - self.in_flight_bytes

    def add(self, piece: PendingBatch) -> None:
        """Append a piece to the waiting ones."""
        self.waiting.append(piece)
        self.queued_bytes += len(piece.payload)

    @property
    def has_unsent(self) -> bool:
        """Whether a batch waits that was never sent, so it can be dropped and fetched again."""
        return bool(self.waiting) and not self.waiting[-1].pinned

    def send_first(self) -> PendingBatch:
        """Move the first waiting piece in flight: from now on its sequences belong to its records."""
        piece = self.waiting.popleft()
        assert piece.batches == 1, "a stretch is no batch"
        assert not piece.is_gone, "its lane is acquired again"
        piece.pinned = True
        self.in_flight.append(piece)
        self.in_flight_bytes += len(piece.payload)
        return piece

    def take_acknowledged(self) -> PendingBatch:
        """Remove the oldest piece in flight, which was appended; the caller calls `settled` for it."""
        piece = self.in_flight.popleft()
        self.in_flight_bytes -= len(piece.payload)
        return piece

    def put_back(self, piece: PendingBatch) -> None:
        """Undo `take_acknowledged`."""
        self.in_flight.appendleft(piece)
        self.in_flight_bytes += len(piece.payload)

    def settled(self, piece: PendingBatch) -> None:
        """Account for a piece that was removed from its queue."""
        self.queued_bytes -= len(piece.payload)
        piece.drop()

    def sought(self) -> None:
        """Note that the log was read and does not hold the waiting batches; a request still queued may arrive later."""
        for piece in self.waiting:
            piece.sought = True

    def older_than(self, before_ms: int) -> bool:
        """Whether all timestamps of some batch that was sent and waits again are below `before_ms`."""
        return any(piece.max_timestamp < before_ms for piece in self.waiting if piece.pinned)

    def may_double(self, forgets_before_ms: int) -> bool:
        """Whether the log may hold the next batch to send, while the leader may have forgotten its producer.

        Callers check this before every resend: while the leader was unreachable, the records of the batch have become
        old. A broker checks the last batch of a producer, so any old waiting batch counts.
        """
        if not self.waiting or not self.waiting[0].pinned:
            return False  # nearly every batch
        return self.older_than(forgets_before_ms) and any(piece.unknown for piece in self.waiting)

    def split_first(self, parts: Sequence[PendingBatch]) -> None:
        """Replace the first waiting piece by smaller ones."""
        whole = self.waiting.popleft()
        self.waiting.extendleft(reversed(parts))
        self.queued_bytes += sum(len(piece.payload) for piece in parts) - len(whole.payload)
        whole.drop()

    def put_first(self, made: PendingBatch, whole: int, used_bytes: int) -> None:
        """Put a piece in the place of the first `whole` waiting pieces and of `used_bytes` of the piece behind them."""
        for _ in range(whole):
            self.settled(self.waiting.popleft())
        self.queued_bytes += len(made.payload) - used_bytes
        self.waiting.appendleft(made)

    def drop_unsent(self) -> None:
        """Drop the batches that were never sent."""
        while self.has_unsent:
            self.settled(self.waiting.pop())

    def shed(self, outcomes: Sequence[Outcome]) -> bool:
        """Let the sent batches wait again, to be sent first; drop what can be fetched again.

        `outcomes`: of the batches in flight; each batch that the log may hold is marked `unknown`. A batch behind all
        of these that the log surely does not hold is fetched again too, unless it is among the first five: its
        sequences are free. Returns whether the log may hold an earlier try of the first batch and was not read since.
        """
        unsure = self.in_flight[0].unknown and not self.in_flight[0].sought
        for piece, outcome in zip(self.in_flight, outcomes, strict=True):
            if outcome.kind not in DEFINITE:
                piece.unknown, piece.sought = True, False
        self.drop_unsent()
        self.waiting.extendleft(reversed(self.in_flight))
        self.in_flight.clear()
        self.in_flight_bytes = 0
        while len(self.waiting) > REMEMBERED and not self.waiting[-1].unknown:
            self.settled(self.waiting.pop())
        return unsure

    @property
    def is_wide(self) -> bool:
        """Whether more sent batches wait than a leader remembers, whose repeats would not be recognised.

        So does one whose bytes were given up, because there were more in flight then.
        """
        is_more = len(self.waiting) > REMEMBERED and self.waiting[REMEMBERED].pinned
        return is_more or any(piece.is_gone for piece in self.waiting)

    def detach(self) -> None:
        """Copy the waiting batches out of their receive buffers."""
        for piece in self.waiting:
            piece.detach()

    def drop_all(self) -> None:
        """Drop all batches."""
        for piece in (*self.in_flight, *self.waiting):
            piece.drop()
        self.in_flight.clear()
        self.waiting.clear()
        self.queued_bytes = self.in_flight_bytes = 0
