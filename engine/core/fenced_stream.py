"""What a lane writes beside its records, as a stream of tiny batches: one in flight, fenced like the data.

The lane's own producer id writes them, with a sequence of its own on their partition; the lane's barrier covers that
partition too, so a stale owner can no more write there than append data. What is written twice does no harm, which
makes every answer but fencing simple.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from engine.core.actions import Action, Fail, Reacquire, Retry, WriteAllowed, WriteDenied
from engine.core.events import AnyEvent
from engine.core.lane import Lane
from engine.core.outcome import UNAUTHORIZED, Outcome, OutcomeKind
from engine.core.piece import Lease, Payload
from engine.core.states import State
from engine.wire.batch import read_header, restamp
from engine.wire.encode import encode_batch
from engine.wire.record import Record

_DUPLICATE = 46
_MINE = frozenset({State.COPYING, State.TROUBLED, State.WAITING, State.SETTLING, State.REFUSED})
_STILL_MINE = _MINE | {State.FAILED}
"""A write of unknown outcome goes out again, but not where somebody else may own the lane: some have no fence."""


class Write(msgspec.Struct, kw_only=True):
    """Some records on their way as one batch."""

    payload: Payload
    record_count: int
    lease: Lease | None = None

    def detach(self) -> None:
        """Do nothing: its bytes are in no receive buffer."""


W = TypeVar("W", bound=Write)


class FencedStream(ABC, Generic[W]):
    """Decides when something is written, and what its answer means; `wall_ms` stamps the records."""

    def __init__(self, lane: Lane, wall_ms: Callable[[], int]) -> None:
        self._lane = lane
        self._wall_ms = wall_ms
        self._sequence = 0
        self._pending: W | None = None
        self._resend = False
        self._attempt = 0
        self._waits = False
        self.denied = False
        """Whether the last answer was that we may not write: a right has lapsed, and may be given back."""

    def begin(self) -> None:
        """Start anew under a new producer epoch."""
        self._sequence = 0
        self._pending = None
        self._resend = self._waits = False
        self._attempt = 0

    @property
    def writing(self) -> bool:
        """Whether a write is on its way, and may become durable whatever happens to us."""
        return self._pending is not None

    def next_write(self) -> W | None:
        """Hand out the write that is due, None while one is in flight or none is needed."""
        if self._pending is not None:
            if not self._resend or self._lane.state not in _STILL_MINE:
                return None
            self._resend = False
            return self._pending
        if self._lane.state not in _MINE or self._lane.trail.left or not self.due:
            return None
        self._pending = self._make()
        self._lane.trail.writes += 1
        return self._pending

    def on_outcome(self, write: W, outcome: Outcome) -> Action | None:
        """Take the answer; an answer for a write of a former epoch is ignored."""
        if write is not self._pending:
            return None
        if outcome.kind is OutcomeKind.APPENDED or outcome.error_code == _DUPLICATE:
            self._pending = None
            self._attempt = 0
            self._lane.trail.writes -= 1
            self._sequence = (self._sequence + write.record_count) & 0x7FFFFFFF
            self._durable(write)
            return self._allowed()
        self._attempt += 1
        self._lane.trail.failed()
        match outcome.kind:
            case OutcomeKind.RETRY | OutcomeKind.UNKNOWN:
                return Retry(self._attempt)
            case OutcomeKind.FENCED | OutcomeKind.ORDER:
                return Reacquire(f"{self.what}: {outcome.message}", fenced=outcome.kind is OutcomeKind.FENCED)
            case _:
                return self._refused(outcome)

    def on_retry(self) -> None:
        """Send the same bytes again, unless they wait for a right: `ask_again` asks for that, and no oftener."""
        self._resend = self._pending is not None and not self._waits

    def ask_again(self, attempt: int) -> None:
        """Send again what was denied at this attempt; a later one has a time of its own."""
        if self._waits and attempt == self._attempt:
            self._waits = False
            self._resend = True

    def _allowed(self) -> WriteAllowed | None:
        was_denied, self.denied = self.denied, False
        return WriteAllowed(self.what) if was_denied else None

    def _refused(self, outcome: Outcome) -> Fail | WriteDenied | None:
        if self._lane.state not in _MINE:
            return None  # the lane has failed, stopped, or is being acquired anew: this write says nothing any more
        if outcome.error_code in UNAUTHORIZED:  # a broker looks at rights before it appends anything
            self._waits = self.denied = True
            return WriteDenied(self.what, self._attempt, outcome.error_code, outcome.message or outcome.kind.value)
        self._lane.fail()
        return Fail(self._refusal(outcome.error_code, outcome.message or outcome.kind.value))

    def _encode(self, records: Sequence[tuple[bytes, bytes | None]], codec: int) -> bytearray:
        """Encode (key, value) pairs as one batch of the lane's producer; None is a tombstone."""
        producer_id, epoch = self._lane.producer
        now = self._wall_ms()
        batch = encode_batch(
            [Record(offset=0, timestamp=now, key=key, value=value, headers=()) for key, value in records],
            codec,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self._sequence,
        )
        if self.transactional:
            restamp(batch, 0, read_header(batch, 0), producer_id, epoch, self._sequence, transactional=True)
        return batch

    # --- what is written -------------------------------------------------------------------------------------

    what: str
    """What is written, in a word."""
    transactional = False
    """Whether it is written in the lane's transactions."""

    @property
    @abstractmethod
    def due(self) -> bool:
        """Whether there is something to write."""

    @abstractmethod
    def _make(self) -> W:
        """Encode what is due."""

    @abstractmethod
    def _durable(self, write: W) -> None:
        """Note that a write is in the log."""

    @abstractmethod
    def _refusal(self, error_code: int, reason: str) -> AnyEvent:
        """Say that the target will not take it: the lane has stopped."""
